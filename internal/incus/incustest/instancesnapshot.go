package incustest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// instanceSnapshot is what an instance was.
type instanceSnapshot struct {
	incus.InstanceSnapshot
	description string
	ephemeral   bool
	files       map[string]*file
}

// snapshot finds a snapshot of an instance, -1 where it is not there.
func (i *instance) snapshot(name string) int {
	return slices.IndexFunc(i.snapshots, func(s instanceSnapshot) bool { return s.Name == name })
}

// cloneFiles copies files. Their content is never changed in place.
func cloneFiles(files map[string]*file) map[string]*file {
	out := make(map[string]*file, len(files))
	for path, f := range files {
		copied := *f
		out[path] = &copied
	}
	return out
}

func (s *Server) listInstanceSnapshots(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(projectOf(r), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	shown := []incus.InstanceSnapshot{}
	for _, snapshot := range i.snapshots {
		shown = append(shown, snapshot.InstanceSnapshot)
	}
	return list(r, shown, func(one incus.InstanceSnapshot) string { return "/1.0/instances/" + i.Name + "/snapshots/" + one.Name }), nil
}

func (s *Server) postInstanceSnapshot(r *http.Request) (reply, error) {
	var post struct {
		Name string `json:"name"`
	}
	if err := read(r, &post); err != nil {
		return nil, err
	}
	project, name := projectOf(r), r.PathValue("name")
	s.mu.Lock()
	_, err := s.find(project, name)
	s.mu.Unlock()
	if err == nil && strings.Contains(post.Name, "/") {
		err = fail(http.StatusBadRequest, `Invalid snapshot name: Cannot contain "/"`)
	}
	if err != nil {
		return nil, err
	}
	return s.run(r, "Snapshotting instance", "/1.0/instances/"+name, func() (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		i, err := s.find(project, name)
		if err != nil {
			return nil, err
		}
		if i.snapshot(post.Name) >= 0 {
			return nil, refuse("Failed creating instance snapshot record %q: Add snapshot info to the database: Failed to create \"instances_snapshots\" entry: UNIQUE constraint failed: instances_snapshots.instance_id, instances_snapshots.name", post.Name)
		}
		i.snapshots = append(i.snapshots, instanceSnapshot{
			InstanceSnapshot: incus.InstanceSnapshot{
				Name: post.Name, Config: maps.Clone(i.Config), Devices: cloneDevices(i.Devices), Profiles: slices.Clone(i.Profiles), CreatedAt: s.now(),
			},
			description: i.Description, ephemeral: i.Ephemeral, files: cloneFiles(i.files),
		})
		return nil, nil
	}), nil
}

func (s *Server) deleteInstanceSnapshot(r *http.Request) (reply, error) {
	project, name, snapshot := projectOf(r), r.PathValue("name"), r.PathValue("snapshot")
	s.mu.Lock()
	_, err := s.snapshotIn(project, name, snapshot)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.run(r, "Deleting snapshot", "/1.0/instances/"+name, func() (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		i, err := s.snapshotIn(project, name, snapshot)
		if err != nil {
			return nil, err
		}
		at := i.snapshot(snapshot)
		i.snapshots = slices.Delete(i.snapshots, at, at+1)
		return nil, nil
	}), nil
}

// snapshotIn finds an instance that has a snapshot. The lock is held.
func (s *Server) snapshotIn(project, name, snapshot string) (*instance, error) {
	i, err := s.find(project, name)
	if err == nil && i.snapshot(snapshot) < 0 {
		err = fail(http.StatusNotFound, fmt.Sprintf("Failed to fetch snapshot %q of instance %q in project %q: Instance_snapshot not found", snapshot, name, project))
	}
	return i, err
}

// restoreInstance brings an instance back to a snapshot. One that runs is stopped for it and started again.
func (s *Server) restoreInstance(project, name, snapshot string) error {
	s.mu.Lock()
	i, err := s.find(project, name)
	if err == nil && i.snapshot(snapshot) < 0 {
		err = refuse("Snapshot %s/%s does not exist", name, snapshot)
	}
	runs := err == nil && i.Status != incus.StatusStopped
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if runs {
		if err := s.stopInstance(project, name, incus.InstanceStatePut{Action: "stop", Force: true}); err != nil {
			return err
		}
	}
	s.mu.Lock()
	i, err = s.snapshotIn(project, name, snapshot)
	if err == nil {
		was := i.snapshots[i.snapshot(snapshot)]
		i.Config, i.Devices, i.Profiles = maps.Clone(was.Config), cloneDevices(was.Devices), slices.Clone(was.Profiles)
		i.Description, i.Ephemeral, i.files = was.description, was.ephemeral, cloneFiles(was.files)
	}
	s.mu.Unlock()
	if err != nil || !runs {
		return err
	}
	return s.startInstance(project, name)
}

// rebuildInstance makes an instance's root disk anew.
func (s *Server) rebuildInstance(r *http.Request) (reply, error) {
	var post struct {
		Source incus.InstanceSource `json:"source"`
	}
	if err := read(r, &post); err != nil {
		return nil, err
	}
	project, name := projectOf(r), r.PathValue("name")
	s.mu.Lock()
	i, err := s.find(project, name)
	if err == nil && i.Status != incus.StatusStopped {
		err = fail(http.StatusBadRequest, "Instance must be stopped to be rebuilt")
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.run(r, "Rebuilding instance", "/1.0/instances/"+name, func() (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		i, err := s.find(project, name)
		if err != nil {
			return nil, err
		}
		image, err := s.imageFor(project, post.Source)
		switch {
		case err != nil:
			return nil, fail(http.StatusInternalServerError, "Image not provided for instance rebuild")
		case len(i.snapshots) > 0:
			return nil, fail(http.StatusInternalServerError, "Failed rebuilding instance from image: Cannot remove an instance volume that has snapshots")
		}
		maps.DeleteFunc(i.Config, func(key, _ string) bool {
			return strings.HasPrefix(key, "image.") || key == "volatile.base_image" || key == "volatile.idmap.next"
		})
		i.useImage(image)
		i.files = s.freshFiles()
		return nil, nil
	}), nil
}

// useImage notes what an instance is made from. A nil image is none.
func (i *instance) useImage(image *incus.Image) {
	if image == nil {
		return
	}
	for name, value := range image.Properties {
		i.Config["image."+name] = value
	}
	i.Config["volatile.base_image"] = image.Fingerprint
}

// freshFiles is what every new root disk has.
func (s *Server) freshFiles() map[string]*file {
	files := map[string]*file{}
	for _, path := range s.directories {
		files[path] = &file{kind: "directory", mode: 0o755}
	}
	return files
}
