package incus

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxFile bounds a file that is pushed or pulled: configuration, not data.
const maxFile = 64 << 20

// FileInfo describes a file of an instance.
type FileInfo struct {
	Mode int
	UID  int
	GID  int
	Type string // "file", "directory", "symlink"
	// Entries are the names in a directory.
	Entries []string
}

// CreateInstanceFile writes a file of at most 64 MiB into an instance, running or not. The directory must exist. Of a file
// that is there already the content is replaced, not in one step, while its mode and owner stay as they are: delete it
// first where they matter.
func (c *Client) CreateInstanceFile(ctx context.Context, instance, path string, file File) error {
	content := []byte{}
	if file.Content != nil {
		// Read whole, so that the request can be sent again where the first connection failed.
		read, err := io.ReadAll(io.LimitReader(file.Content, maxFile+1))
		if err != nil {
			return fmt.Errorf("incus: read what to push to %s:%s: %w", instance, path, err)
		}
		content = read
	}
	if len(content) > maxFile {
		return &Error{Kind: ErrInvalid, Method: http.MethodPost, Path: apiPath("instances", instance, "files"), Message: fmt.Sprintf("%s is larger than %d bytes", path, maxFile)}
	}
	header := fileHeader("file", file.Mode, file.UID, file.GID)
	header.Set("X-Incus-write", "overwrite")
	return c.postFile(ctx, instance, path, content, header)
}

// CreateInstanceDirectory makes one directory in an instance. Its parent must exist. Where something has that name, even a
// file, the server leaves it as it is and reports success.
func (c *Client) CreateInstanceDirectory(ctx context.Context, instance, path string, mode, uid, gid int) error {
	return c.postFile(ctx, instance, path, []byte{}, fileHeader("directory", mode, uid, gid))
}

// CreateInstanceSymlink makes a symbolic link in an instance. It replaces nothing.
func (c *Client) CreateInstanceSymlink(ctx context.Context, instance, path, target string) error {
	return c.postFile(ctx, instance, path, []byte(target), fileHeader("symlink", 0o777, 0, 0))
}

// postFile sends one file. As application/octet-stream: with any other type the server takes the body for a form.
func (c *Client) postFile(ctx context.Context, instance, path string, content []byte, header http.Header) error {
	return c.write(ctx, call{
		method: http.MethodPost, path: apiPath("instances", instance, "files"), query: url.Values{"path": {path}},
		raw: content, header: header,
	})
}

// fileHeader describes a file to the server.
func fileHeader(kind string, mode, uid, gid int) http.Header {
	header := http.Header{}
	header.Set("X-Incus-type", kind)
	header.Set("X-Incus-mode", fmt.Sprintf("%04o", mode))
	header.Set("X-Incus-uid", strconv.Itoa(uid))
	header.Set("X-Incus-gid", strconv.Itoa(gid))
	return header
}

// GetInstanceFile reads a file of at most 64 MiB, or the names in a directory, from an instance.
func (c *Client) GetInstanceFile(ctx context.Context, instance, path string) ([]byte, FileInfo, error) {
	k := call{
		method: http.MethodGet, path: apiPath("instances", instance, "files"), query: url.Values{"path": {path}},
		stream: true, limit: maxFile,
	}
	got, err := c.do(ctx, k)
	if err != nil {
		return nil, FileInfo{}, err
	}
	info := FileInfo{Type: got.header.Get("X-Incus-type")}
	if info.Type == "" {
		return nil, FileInfo{}, foreign(&Error{Method: http.MethodGet, Path: withoutSecrets(c.location(k)), Status: got.code}, got, nil)
	}
	info.UID, _ = strconv.Atoi(got.header.Get("X-Incus-uid"))
	info.GID, _ = strconv.Atoi(got.header.Get("X-Incus-gid"))
	mode, _ := strconv.ParseInt(strings.TrimPrefix(got.header.Get("X-Incus-mode"), "0o"), 8, 32)
	info.Mode = int(mode)
	if info.Type == "directory" {
		if err := c.decode(k, got, &info.Entries); err != nil {
			return nil, FileInfo{}, err
		}
		return nil, info, nil
	}
	return got.raw, info, nil
}

// DeleteInstanceFile deletes a file or an empty directory of an instance.
func (c *Client) DeleteInstanceFile(ctx context.Context, instance, path string) error {
	return c.write(ctx, call{method: http.MethodDelete, path: apiPath("instances", instance, "files"), query: url.Values{"path": {path}}})
}
