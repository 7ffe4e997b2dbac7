// Package nginxconf is what the App types that run nginx share: the frame of a minimal configuration, and how nginx is
// reloaded and asked what is wrong.
package nginxconf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/daemon"
)

// Path is where nginx's main configuration is in the images that packages and Docker make.
const Path = "/etc/nginx/nginx.conf"

// Daemon returns nginx as a daemon to reload. "nginx -s reload" would send the same signal, but finds the master by the
// pid file that the new configuration names, which need not be the one that the running master wrote.
func Daemon() daemon.Daemon {
	return daemon.Daemon{
		Program: "nginx",
		Check:   func(path string) []string { return []string{"nginx", "-t", "-q", "-c", path} },
		Signal:  "HUP",
		Log:     "/var/log/nginx/error.log",
	}
}

// mediaTypes are those of a plain web site. They are written out, since not every image has a mime.types.
var mediaTypes = []string{
	"text/html html htm", "text/css css", "text/javascript js mjs", "text/plain txt", "text/markdown md", "text/csv csv",
	"text/xml xml", "application/json json map", "application/manifest+json webmanifest", "application/pdf pdf",
	"application/wasm wasm", "application/rss+xml rss", "application/atom+xml atom", "application/zip zip",
	"image/svg+xml svg svgz", "image/png png", "image/jpeg jpg jpeg", "image/gif gif", "image/webp webp", "image/avif avif",
	"image/x-icon ico", "font/woff woff", "font/woff2 woff2", "font/ttf ttf", "audio/mpeg mp3", "video/mp4 mp4",
}

// Frame returns a whole configuration around what goes into its http block. It has no daemon directive: images start
// nginx with -g 'daemon off;', and twice is an error. It has no user directive either: whom nginx was built to run as
// exists in its image, others may not.
func Frame(http string) string {
	var b strings.Builder
	b.WriteString("# Written by homelabops. Changes are overwritten.\n" +
		"worker_processes auto;\n" +
		"pid /run/nginx.pid;\n" +
		"error_log /var/log/nginx/error.log error;\n" +
		"events {\n    worker_connections 1024;\n}\n" +
		"http {\n    types {\n")
	for _, t := range mediaTypes {
		b.WriteString("        " + t + ";\n")
	}
	b.WriteString("    }\n" +
		"    default_type application/octet-stream;\n" +
		"    charset utf-8;\n" +
		"    access_log off;\n" +
		"    log_not_found off;\n" +
		"    server_tokens off;\n" +
		"    sendfile on;\n" +
		"    keepalive_timeout 65;\n")
	b.WriteString(http)
	b.WriteString("}\n")
	return b.String()
}

// Explain asks nginx itself, once a probe has failed, whether its configuration is the reason. Where it is, the reason
// has nginx's words and is a renderer.ErrTerminal, unless it is one that time may mend.
func Explain(ctx context.Context, look renderer.Look, t renderer.Target, probed error) error {
	err := look.Exec(ctx, t, renderer.ExecProbe{Command: []string{"nginx", "-t", "-q"}})
	switch {
	case err == nil:
		return probed
	case errors.Is(err, incus.ErrCommandNotFound):
		return fmt.Errorf("%w; the image has no nginx to ask for the reason", probed)
	case !strings.Contains(err.Error(), "[emerg]"):
		return probed
	case slices.ContainsFunc(passing, func(words string) bool { return strings.Contains(err.Error(), words) }):
		return fmt.Errorf("%w; %w", probed, err)
	}
	return fmt.Errorf("%w; nginx refuses its configuration: %w: %w", probed, err, renderer.ErrTerminal)
}

// passing are words of nginx about what is only so for now: a name that the network doesn't resolve yet.
var passing = []string{"host not found", "could not be resolved", "Address already in use"}
