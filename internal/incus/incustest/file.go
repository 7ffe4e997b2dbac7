package incustest

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

// file is one file, directory or symbolic link of an instance.
type file struct {
	kind     string // "file", "directory", "symlink"
	mode     int
	uid, gid int
	content  []byte
}

// filePath reads the path of a request. A relative one starts at the root.
func filePath(r *http.Request) string { return path.Clean("/" + r.URL.Query().Get("path")) }

func (s *Server) postFile(r *http.Request) (reply, error) {
	at := filePath(r)
	var content []byte
	if r.Header.Get("Content-Type") == "application/octet-stream" {
		read, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		content = read
	} // with any other type the server takes the body for a form, and the file stays empty
	posted := &file{kind: orDefault(r.Header.Get("X-Incus-type"), "file"), content: content}
	posted.uid, _ = strconv.Atoi(r.Header.Get("X-Incus-uid"))
	posted.gid, _ = strconv.Atoi(r.Header.Get("X-Incus-gid"))
	mode, _ := strconv.ParseInt(orDefault(r.Header.Get("X-Incus-mode"), "0644"), 8, 32)
	posted.mode = int(mode)

	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(projectOf(r), r.PathValue("name"))
	if err == nil {
		err = reachable(i)
	}
	if err != nil {
		return nil, err
	}
	if parent := i.files[path.Dir(at)]; path.Dir(at) != "/" && (parent == nil || parent.kind != "directory") {
		return nil, fail(http.StatusNotFound, "Not Found")
	}
	there := i.files[at]
	switch {
	case there == nil:
		i.files[at] = posted
	case posted.kind == "directory": // whatever is there stays as it is
	case posted.kind == "symlink":
		return nil, fail(http.StatusInternalServerError, fmt.Sprintf("sftp: \"symlink %s %s: file exists\" (SSH_FX_FAILURE)", content, at))
	case there.kind == "directory":
		return nil, fail(http.StatusInternalServerError, fmt.Sprintf("sftp: \"open %s: is a directory\" (SSH_FX_FAILURE)", at))
	case r.Header.Get("X-Incus-write") == "append":
		there.content = append(slices.Clone(there.content), content...)
	default:
		there.content = content // mode and owner stay
	}
	return empty(), nil
}

func (s *Server) getFile(r *http.Request) (reply, error) {
	at := filePath(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(projectOf(r), r.PathValue("name"))
	if err == nil {
		err = reachable(i)
	}
	if err != nil {
		return nil, err
	}
	found := i.files[at]
	if at == "/" {
		found = &file{kind: "directory", mode: 0o755}
	}
	if found == nil {
		return nil, fail(http.StatusNotFound, "Not Found")
	}
	answer := fileReply{file: *found}
	if found.kind == "directory" {
		answer.entries = []string{}
		for _, other := range slices.Sorted(maps.Keys(i.files)) {
			if path.Dir(other) == at {
				answer.entries = append(answer.entries, path.Base(other))
			}
		}
	}
	return answer, nil
}

// fileReply sends a file, or the names in a directory.
type fileReply struct {
	file
	entries []string
}

func (f fileReply) write(w http.ResponseWriter) {
	w.Header().Set("X-Incus-type", f.kind)
	w.Header().Set("X-Incus-mode", fmt.Sprintf("%04o", f.mode))
	w.Header().Set("X-Incus-uid", strconv.Itoa(f.uid))
	w.Header().Set("X-Incus-gid", strconv.Itoa(f.gid))
	if f.kind == "directory" {
		object(f.entries).write(w)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(f.content) // a client that has gone needs no answer
}

func (s *Server) deleteFile(r *http.Request) (reply, error) {
	at := filePath(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(projectOf(r), r.PathValue("name"))
	if err == nil {
		err = reachable(i)
	}
	if err != nil {
		return nil, err
	}
	if i.files[at] == nil {
		return nil, fail(http.StatusNotFound, "Not Found")
	}
	for other := range i.files {
		if strings.HasPrefix(other, at+"/") {
			return nil, fail(http.StatusInternalServerError, fmt.Sprintf("sftp: \"remove %s: directory not empty\" (SSH_FX_FAILURE)", at))
		}
	}
	delete(i.files, at)
	return empty(), nil
}
