package version

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Image is a reference to an image, taken apart.
type Image struct {
	Remote      string // name of the image server, "docker"; empty for the server's own images
	Alias       string // name there, slashes included; empty for a fingerprint
	Tag         string // of an OCI image; empty where none was given
	Digest      string // of an OCI image, "sha256:…"; empty where none was given
	Fingerprint string // of an Incus image, 12 to 64 hexadecimal digits; empty for an alias
	Version     string // what tag or alias tell of the software's version; empty where they don't
}

// maxReference is above the longest real reference: a host name's worth of path, a tag of 128 and a digest.
const maxReference = 512

var (
	fingerprintPattern = regexp.MustCompile(`^[0-9a-f]{12,64}$`)
	remotePattern      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	// tagPattern is the grammar of the OCI distribution specification.
	tagPattern    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	digestPattern = regexp.MustCompile(`^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)
)

// ociRemotes are the built-in remotes whose names can't be fingerprints, since OCI registries have none.
var ociRemotes = map[string]bool{"docker": true, "ghcr": true}

// ParseImage takes a reference apart: a local alias ("web/1.27.3"), an alias at a remote ("images:debian/13"), an OCI
// image ("docker:library/nginx:1.27", with "@sha256:…" if pinned) or a fingerprint of at least 12 digits. It knows
// nothing of which remotes exist. Errors say what to write instead.
func ParseImage(ref string) (Image, error) {
	if err := checkReference(ref); err != nil {
		return Image{}, err
	}
	if fingerprintPattern.MatchString(ref) {
		return Image{Fingerprint: ref}, nil
	}
	var img Image
	rest := ref
	if remote, name, ok := strings.Cut(ref, ":"); ok {
		if err := checkRemote(ref, remote, name); err != nil {
			return Image{}, err
		}
		img.Remote, rest = remote, name
	}
	if name, digest, ok := strings.Cut(rest, "@"); ok {
		if img.Remote == "" {
			return Image{}, fmt.Errorf("image %q has a digest but no remote: write it as \"docker:%s\"", ref, ref)
		}
		if !digestPattern.MatchString(digest) {
			return Image{}, fmt.Errorf("image %q: %q behind the @ is not a digest: use sha256: and 64 hexadecimal digits", ref, digest)
		}
		img.Digest, rest = digest, name
	}
	if name, tag, ok := strings.Cut(rest, ":"); ok {
		if !tagPattern.MatchString(tag) {
			return Image{}, fmt.Errorf("image %q: %q is not a tag: use up to 128 letters, digits, dots, dashes and underscores", ref, tag)
		}
		img.Tag, rest = tag, name
	}
	if fingerprintPattern.MatchString(rest) && img.Tag == "" && img.Digest == "" && !ociRemotes[img.Remote] {
		img.Fingerprint = rest
		return img, nil
	}
	if err := checkAlias(ref, rest); err != nil {
		return Image{}, err
	}
	img.Alias = rest
	img.Version = versionIn(img)
	return img, nil
}

// String returns the reference that ParseImage reads.
func (i Image) String() string {
	var b strings.Builder
	if i.Remote != "" {
		b.WriteString(i.Remote + ":")
	}
	b.WriteString(i.Fingerprint + i.Alias)
	if i.Tag != "" {
		b.WriteString(":" + i.Tag)
	}
	if i.Digest != "" {
		b.WriteString("@" + i.Digest)
	}
	return b.String()
}

// versionIn returns the version that an image's tag gives, or without a tag the last segment of its alias.
func versionIn(i Image) string {
	text := i.Tag
	if text == "" {
		text = i.Alias[strings.LastIndex(i.Alias, "/")+1:]
	}
	if _, err := Parse(text); err != nil {
		return ""
	}
	return text
}

func checkReference(ref string) error {
	switch {
	case ref == "":
		return fmt.Errorf("the image is empty: name a local alias, \"remote:alias\" or a fingerprint")
	case len(ref) > maxReference:
		return fmt.Errorf("the image has %d characters: at most %d are supported", len(ref), maxReference)
	case !utf8.ValidString(ref):
		return fmt.Errorf("image %q is not valid UTF-8", ref)
	}
	for _, r := range ref {
		switch {
		case unicode.IsSpace(r):
			return fmt.Errorf("image %q contains a space or line break", ref)
		case !unicode.IsGraphic(r):
			return fmt.Errorf("image %q contains the control character %U", ref, r)
		}
	}
	return nil
}

func checkRemote(ref, remote, name string) error {
	switch {
	case remote == "":
		return fmt.Errorf("image %q has no remote before the colon: leave the colon out for a local image", ref)
	case name == "":
		return fmt.Errorf("image %q names a remote but no image: write it as %q", ref, remote+":alias")
	case digestPattern.MatchString(ref):
		return fmt.Errorf("image %q is a bare digest: for a local image write the fingerprint %s, for one of a registry \"docker:name@%s\"", ref, name, ref)
	case strings.Contains(remote, "@"):
		return fmt.Errorf("image %q has a digest but no remote: write it as \"docker:%s\"", ref, ref)
	case strings.Contains(remote, "/"):
		return fmt.Errorf("image %q: %q is not the name of a remote: for Docker Hub write \"docker:%s\"", ref, remote, strings.TrimPrefix(ref, "docker.io/"))
	case !remotePattern.MatchString(remote):
		return fmt.Errorf("image %q: %q is not the name of a remote: use letters, digits, dots, dashes and underscores", ref, remote)
	}
	return nil
}

func checkAlias(ref, alias string) error {
	if alias == "" {
		return fmt.Errorf("image %q has a tag or digest but no name", ref)
	}
	for segment := range strings.SplitSeq(alias, "/") {
		switch segment {
		case "":
			return fmt.Errorf("image %q has an empty part: slashes stand between parts, one at a time", ref)
		case ".", "..":
			return fmt.Errorf("image %q has the part %q, which is no name", ref, segment)
		}
	}
	return nil
}
