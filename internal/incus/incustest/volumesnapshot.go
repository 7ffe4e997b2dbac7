package incustest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// snapshot finds a snapshot of a volume, -1 where it is not there.
func (v *volume) snapshot(name string) int {
	return slices.IndexFunc(v.snapshots, func(s volumeSnapshot) bool { return s.Name == name })
}

// show is a snapshot as the API shows it, with the volume's name before its own.
func (v *volume) show(snapshot volumeSnapshot) incus.StorageVolumeSnapshot {
	out := snapshot.StorageVolumeSnapshot
	out.Name, out.Config = v.Name+"/"+snapshot.Name, maps.Clone(snapshot.Config)
	return out
}

func (s *Server) listVolumeSnapshots(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.placeOf(r)
	if err != nil {
		return nil, err
	}
	v, err := s.volumeAt(at, r.PathValue("volume"))
	shown := []incus.StorageVolumeSnapshot{}
	if err != nil && (at.target == "" || len(s.volumesAt(at, r.PathValue("volume"))) > 0) {
		return nil, err
	}
	if err == nil { // a volume that the target does not have looks like one without snapshots
		for _, snapshot := range v.snapshots {
			shown = append(shown, v.show(snapshot))
		}
	}
	return list(r, shown, func(one incus.StorageVolumeSnapshot) string {
		return strings.Replace(volumeURL(at.pool.Name, one.Name), "/"+r.PathValue("volume")+"/", "/"+r.PathValue("volume")+"/snapshots/", 1)
	}), nil
}

// volumeSnapshotOf finds the snapshot of a request. The lock is held.
func (s *Server) volumeSnapshotOf(r *http.Request) (*volume, int, error) {
	v, err := s.volumeOf(r)
	if err != nil {
		return nil, 0, err
	}
	at := v.snapshot(r.PathValue("snapshot"))
	if at < 0 {
		return nil, 0, fail(http.StatusNotFound, "Storage pool volume not found")
	}
	return v, at, nil
}

func (s *Server) getVolumeSnapshot(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, at, err := s.volumeSnapshotOf(r)
	if err != nil {
		return nil, err
	}
	return object(v.show(v.snapshots[at])), nil
}

func (s *Server) postVolumeSnapshot(r *http.Request) (reply, error) {
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
		err = fail(http.StatusBadRequest, `Storage name cannot contain "/"`)
	case v.snapshot(post.Name) >= 0:
		err = fail(http.StatusConflict, fmt.Sprintf("Snapshot %q already in use", post.Name))
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.run(r, "Creating storage volume snapshot", "", func() (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		v, err := s.volumeOf(r)
		if err != nil {
			return nil, err
		}
		name := post.Name
		for n := 0; name == ""; n++ {
			if candidate := fmt.Sprintf("snap%d", n); v.snapshot(candidate) < 0 {
				name = candidate
			}
		}
		v.snapshots = append(v.snapshots, volumeSnapshot{
			StorageVolumeSnapshot: incus.StorageVolumeSnapshot{Name: name, Config: maps.Clone(v.Config), CreatedAt: s.now()},
			content:               v.content,
		})
		return nil, nil
	}), nil
}

func (s *Server) deleteVolumeSnapshot(r *http.Request) (reply, error) {
	s.mu.Lock()
	_, _, err := s.volumeSnapshotOf(r)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.run(r, "Deleting storage volume snapshot", "", func() (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		v, at, err := s.volumeSnapshotOf(r)
		if err != nil {
			return nil, err
		}
		v.snapshots = slices.Delete(v.snapshots, at, at+1)
		return nil, nil
	}), nil
}

// restoreVolume brings the content of a snapshot back. The lock is held.
func (s *Server) restoreVolume(v *volume, name string) error {
	if s.usedWhileRunning(v) {
		return fail(http.StatusInternalServerError, "Cannot restore custom volume used by running instances")
	}
	at := v.snapshot(name)
	if at < 0 {
		return refuse("Failed to run: btrfs subvolume snapshot /%s/%s /%s: exit status 1 (ERROR: Could not statfs: No such file or directory)", v.Name, name, v.Name)
	}
	v.content = v.snapshots[at].content
	return nil
}
