package connection

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/version"
)

// UnknownRemote says, where an image reference names an image server that the provider doesn't know, what it knows and
// what to do. It returns "" for any other.
func (c *Connection) UnknownRemote(image string) string {
	parsed, err := version.ParseImage(image)
	if err != nil || parsed.Remote == "" {
		return ""
	}
	if _, known := c.Remotes[parsed.Remote]; known {
		return ""
	}
	names := slices.Sorted(maps.Keys(c.Remotes))
	return fmt.Sprintf("Image %q names the remote %q, which the provider does not know. It knows %s; add others to image_remotes of the provider%s.",
		image, parsed.Remote, strings.Join(names, ", "), localHint(image))
}

// localHint helps who wrote a tag to a local alias.
func localHint(image string) string {
	if remote, rest, ok := strings.Cut(image, ":"); ok && !strings.Contains(rest, ":") {
		return fmt.Sprintf(". For an image of the server's own write its alias as `incus image list` shows it, or for Docker Hub \"docker:%s:%s\"", remote, rest)
	}
	return ""
}
