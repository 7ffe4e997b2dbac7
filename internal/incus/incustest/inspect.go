package incustest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Instances returns every instance of every project, with its state, by project and name.
func (s *Server) Instances() []incus.Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []incus.Instance
	for _, i := range s.sorted() {
		out = append(out, s.show(i, true))
	}
	return out
}

// Names returns the names of the instances of the default project, sorted.
func (s *Server) Names() []string {
	names := []string{}
	for _, i := range s.Instances() {
		if i.Project == "default" {
			names = append(names, i.Name)
		}
	}
	return names
}

// Instance returns an instance of the default project, with its state.
func (s *Server) Instance(name string) (incus.Instance, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.instances[key{"default", name}]
	if !ok {
		return incus.Instance{}, false
	}
	return s.show(i, true), true
}

// Address returns the first IPv4 address of an instance of the default project, empty where it has none.
func (s *Server) Address(name string) string {
	i, ok := s.Instance(name)
	if !ok || i.State == nil {
		return ""
	}
	for _, card := range i.State.Network {
		for _, address := range card.Addresses {
			if address.Scope == "global" {
				return address.Address
			}
		}
	}
	return ""
}

// File returns a file of an instance of the default project.
func (s *Server) File(name, path string) (content []byte, info incus.FileInfo, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.instances[key{"default", name}]
	if !ok || i.files[path] == nil {
		return nil, incus.FileInfo{}, false
	}
	f := i.files[path]
	return slices.Clone(f.content), incus.FileInfo{Type: f.kind, Mode: f.mode, UID: f.uid, GID: f.gid}, true
}

// Forward returns the forward of a network that listens at an address.
func (s *Server) Forward(networkName, listen string) (incus.NetworkForward, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.network(networkName)
	address, err := netip.ParseAddr(listen)
	if n == nil || err != nil || n.forwards[address] == nil {
		return incus.NetworkForward{}, false
	}
	return *n.forwards[address], true
}

// ForwardInForce is Forward as the network does it, which may be behind: see Overtake.
func (s *Server) ForwardInForce(networkName, listen string) (incus.NetworkForward, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.network(networkName)
	address, err := netip.ParseAddr(listen)
	if n == nil || err != nil {
		return incus.NetworkForward{}, false
	}
	forward, ok := n.inForce[address]
	return forward, ok
}

// Profiles returns the names of the profiles of a project, sorted.
func (s *Server) Profiles(project string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := []string{}
	for k := range s.profiles {
		if k.project == project {
			names = append(names, k.name)
		}
	}
	slices.Sort(names)
	return names
}

// Edit changes an instance of the default project behind everybody's back, as somebody with the CLI would: its
// configuration, devices, status.
func (s *Server) Edit(name string, change func(*incus.Instance)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.instances[key{"default", name}]
	if !ok {
		return fmt.Errorf("edit instance %s: %w", name, incus.ErrNotFound)
	}
	change(&i.Instance)
	for word, code := range map[string]int{incus.StatusRunning: 103, incus.StatusStopped: 102, incus.StatusFrozen: 110, incus.StatusReady: 113, incus.StatusError: 112} {
		if i.Status == word {
			i.StatusCode = code
		}
	}
	if i.Status == incus.StatusStopped {
		i.die()
	}
	return nil
}

// Remove deletes an instance of the default project behind everybody's back, running or not.
func (s *Server) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.instances[key{"default", name}]; ok {
		i.die()
	}
	delete(s.instances, key{"default", name})
}

// Volumes returns the custom volumes of every project, by pool, project, name and location.
func (s *Server) Volumes() []incus.StorageVolume {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.volumes)
	slices.SortFunc(all, func(a, b *volume) int {
		return cmp.Or(strings.Compare(a.pool, b.pool), strings.Compare(a.Project, b.Project), strings.Compare(a.Name, b.Name), strings.Compare(a.Location, b.Location))
	})
	var out []incus.StorageVolume
	for _, v := range all {
		out = append(out, s.showVolume(v))
	}
	return out
}

// VolumeContent returns what is in a volume of the default project: a text that stands for all its files. Snapshots, copies
// and restores carry it along. In a cluster no two members may have the name; see VolumeContentOn.
func (s *Server) VolumeContent(pool, name string) (content string, ok bool) {
	return s.VolumeContentOn("", pool, name)
}

// VolumeContentOn is VolumeContent on one member of a cluster.
func (s *Server) VolumeContentOn(member, pool, name string) (content string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.volumesAt(volumePlace{pool: incus.StoragePool{Name: pool}, project: "default", target: member}, name)
	if len(found) != 1 {
		return "", false
	}
	return found[0].content, true
}

// SetVolumeContent replaces what is in a volume of the default project, as an instance that uses it would.
func (s *Server) SetVolumeContent(pool, name, content string) error {
	return s.SetVolumeContentOn("", pool, name, content)
}

// SetVolumeContentOn is SetVolumeContent on one member of a cluster.
func (s *Server) SetVolumeContentOn(member, pool, name, content string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.volumesAt(volumePlace{pool: incus.StoragePool{Name: pool}, project: "default", target: member}, name)
	if len(found) != 1 {
		return fmt.Errorf("write to volume %s of pool %s: %d volumes have the name", name, pool, len(found))
	}
	found[0].content = content
	return nil
}

// RemoveVolume deletes a volume of the default project behind everybody's back, in use or not, on every member.
func (s *Server) RemoveVolume(pool, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.volumes = slices.DeleteFunc(s.volumes, func(v *volume) bool { return v.Project == "default" && v.pool == pool && v.Name == name })
}
