package renderer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// hashBytes is how much of a SHA-256 is kept: two specs of one App never meet by chance in 128 bits, and the tag stays
// readable.
const hashBytes = 16

// ColdHash identifies what takes a new generation to change: all of the spec but Hot, the image reference and the version
// of the software. It is stable over time and independent of the order in which anything was added. Take it of a Spec
// that was rendered without node, instance and generation.
func (s Spec) ColdHash(image, version string) string {
	parts := map[string]any{
		"image":    image,
		"version":  version,
		"config":   canonicalMap(s.Config),
		"devices":  canonicalMap(s.Devices),
		"profiles": slices.Concat([]string{}, s.Profiles),
		"files":    canonicalFiles(s.Files),
	}
	if s.Secrets != "" {
		parts["secrets"] = s.Secrets
	}
	return hash(parts)
}

// HotHash identifies what is changed in place: description, limits, the files of a Reloader, the sizes of volumes, and what
// files with the members of upstreams are rendered from, since those lines are in no file that is hashed.
func (s Spec) HotHash() string {
	parts := map[string]any{
		"description": s.Hot.Description,
		"config":      canonicalMap(s.Hot.Config),
		"files":       canonicalFiles(s.Hot.Files),
	}
	if len(s.Hot.Volumes) > 0 {
		parts["volumes"] = s.Hot.Volumes
	}
	if s.Hot.Binding != "" {
		parts["binding"] = s.Hot.Binding
	}
	return hash(parts)
}

// hash writes the value as JSON, in which Go sorts the keys of maps, and hashes that.
func hash(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("renderer: a spec can't be written as JSON: %v", err)) // holds strings and numbers only
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:hashBytes])
}

// canonicalMap makes nil and empty the same.
func canonicalMap[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// canonicalFile fixes the names and the order of what is hashed of a file, whatever File becomes. The content goes in
// as a hash of its own, because JSON would make one of all bytes that are not UTF-8. Secret files are left out: the hash is
// kept where others read it, and a short secret could be found from it. That they have changed, the version of the secrets
// tells.
type canonicalFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Mode    int    `json:"mode"`
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
}

func canonicalFiles(files []File) []canonicalFile {
	all := make([]canonicalFile, 0, len(files))
	for _, f := range slices.SortedFunc(slices.Values(files), byPath) {
		if f.Secret {
			continue
		}
		sum := sha256.Sum256([]byte(f.Content))
		all = append(all, canonicalFile{f.Path, hex.EncodeToString(sum[:]), f.Permissions(), f.UID, f.GID})
	}
	return all
}

// Permissions returns the permission bits of the file: 0644 where none are set.
func (f File) Permissions() int {
	if f.Mode == 0 {
		return 0o644
	}
	return f.Mode
}
