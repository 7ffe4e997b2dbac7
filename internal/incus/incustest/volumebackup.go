package incustest

import (
	"archive/tar"
	"bytes"
	"net/http"
	"slices"
	"strings"
)

// volumeBackup is an archive of what a volume was.
type volumeBackup struct {
	name    string
	content string
}

func (v *volume) backup(name string) int {
	return slices.IndexFunc(v.backups, func(b volumeBackup) bool { return b.name == name })
}

func (s *Server) postVolumeBackup(r *http.Request) (reply, error) {
	var post struct {
		Name string `json:"name"`
	}
	if err := read(r, &post); err != nil {
		return nil, err
	}
	s.mu.Lock()
	v, err := s.volumeOf(r)
	switch {
	case err != nil:
	case strings.Contains(post.Name, "/"):
		err = fail(http.StatusBadRequest, "Backup names may not contain slashes")
	case v.backup(post.Name) >= 0:
		err = fail(http.StatusConflict, "Backup already exists")
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.run(r, "Creating custom volume backup", "", func() (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		v, err := s.volumeOf(r)
		if err == nil {
			v.backups = append(v.backups, volumeBackup{post.Name, v.content})
		}
		return nil, err
	}), nil
}

// volumeBackupOf finds the backup of a request. The lock is held.
func (s *Server) volumeBackupOf(r *http.Request) (*volume, int, error) {
	v, err := s.volumeOf(r)
	if err != nil {
		return nil, 0, err
	}
	at := v.backup(r.PathValue("backup"))
	if at < 0 {
		return nil, 0, fail(http.StatusNotFound, "Storage volume backup not found")
	}
	return v, at, nil
}

func (s *Server) exportVolumeBackup(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, at, err := s.volumeBackupOf(r)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, one := range []struct{ name, content string }{{"backup/index.yaml", "name: " + v.Name}, {"backup/volume/content", v.backups[at].content}} {
		_ = w.WriteHeader(&tar.Header{Name: one.name, Mode: 0o644, Size: int64(len(one.content))}) // memory doesn't fail
		_, _ = w.Write([]byte(one.content))
	}
	_ = w.Close()
	return fileReply{file: file{content: archive.Bytes()}}, nil
}

func (s *Server) deleteVolumeBackup(r *http.Request) (reply, error) {
	s.mu.Lock()
	_, _, err := s.volumeBackupOf(r)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.run(r, "Deleting custom volume backup", "", func() (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		v, at, err := s.volumeBackupOf(r)
		if err == nil {
			v.backups = slices.Delete(v.backups, at, at+1)
		}
		return nil, err
	}), nil
}
