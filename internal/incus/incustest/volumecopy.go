package incustest

import (
	"maps"
	"net/http"
	"path"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// volumeSource is what a new volume is made from.
type volumeSource struct {
	Type       string            `json:"type"`
	Name       string            `json:"name"`
	Pool       string            `json:"pool"`
	Project    string            `json:"project"`
	Location   string            `json:"location"`
	VolumeOnly bool              `json:"volume_only"`
	Operation  string            `json:"operation"`
	Secrets    map[string]string `json:"secrets"`
}

// offerVolume begins an operation from which another member can fetch the volume. The lock is held.
func (s *Server) offerVolume(v *volume) reply {
	op := s.newOperation("websocket", "Migrating storage volume")
	op.offered, op.metadata = v, map[string]string{"control": newID(), "fs": newID()}
	return begun{op.view()}
}

// fillVolume gives a new volume the content of its source. Where that fails it goes again.
func (s *Server) fillVolume(v *volume, at volumePlace, source volumeSource) error {
	s.mu.Lock()
	from, op, err := s.sourceOf(v, at, source)
	switch {
	case err != nil, !slices.Contains(s.volumes, v): // deleted meanwhile
		if err == nil {
			err = fail(http.StatusInternalServerError, "Create custom volume from copy failed: [Rsync receive failed]")
		}
		// As the real server cleans up (Incus 6.0.4), it takes what has the name by then, also where that is another one.
		s.volumes = slices.DeleteFunc(s.volumes, func(o *volume) bool {
			return o.pool == v.pool && o.Project == v.Project && o.Name == v.Name && o.Location == v.Location
		})
	default:
		v.becomeCopy(from, source)
		if s.OnCopy != nil {
			v.content = s.OnCopy(v.content)
		}
	}
	s.mu.Unlock()
	if err == nil && op != nil {
		s.end(op, nil, nil)
	}
	return err
}

// becomeCopy makes a volume like another one.
func (v *volume) becomeCopy(from *volume, source volumeSource) {
	v.content, v.ContentType = from.content, from.ContentType
	if source.Type == "copy" { // one that is fetched has only what the request says
		v.Description = orDefault(v.Description, from.Description)
		if len(v.Config) == 0 {
			v.Config = maps.Clone(from.Config)
		}
	}
	if !source.VolumeOnly {
		v.snapshots = slices.Clone(from.snapshots)
	}
}

// sourceOf finds the volume to copy, and the operation that offers it where one does. The lock is held.
func (s *Server) sourceOf(v *volume, at volumePlace, source volumeSource) (*volume, *operation, error) {
	if source.Type == "migration" {
		op, err := s.findOperation(path.Base(source.Operation))
		if err != nil || op.offered == nil || op.metadata.(map[string]string)["control"] != source.Secrets["control"] || s.offline(op.offered.Location) {
			return nil, nil, fail(http.StatusInternalServerError, "Error transferring storage volume: websocket: bad handshake")
		}
		return op.offered, op, nil
	}
	if !slices.ContainsFunc(s.pools, func(p incus.StoragePool) bool { return p.Name == source.Pool }) {
		return nil, nil, fail(http.StatusNotFound, "Storage pool not found")
	}
	project, err := s.holder(orDefault(source.Project, at.project), "features.storage.volumes")
	if err != nil {
		return nil, nil, err
	}
	where := volumePlace{pool: incus.StoragePool{Name: source.Pool}, project: project, target: v.Location}
	if s.clustered && source.Location != "" && source.Location != v.Location {
		if project != "default" { // as in Incus 6.0
			return nil, nil, fail(http.StatusInternalServerError, "Error transferring storage volume: websocket: close 1000 (normal)")
		}
		where.target = source.Location
	}
	from, err := s.volumeAt(where, source.Name)
	if err != nil {
		return nil, nil, fail(http.StatusNotFound, "Failed generating volume copy config: "+err.Error())
	}
	return from, nil, nil
}
