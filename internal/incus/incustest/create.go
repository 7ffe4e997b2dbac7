package incustest

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// postInstance makes an instance. What the request alone shows to be wrong is answered at once, the rest by the operation.
func (s *Server) postInstance(r *http.Request) (reply, error) {
	var post incus.InstancesPost
	if err := read(r, &post); err != nil {
		return nil, err
	}
	project := projectOf(r)
	s.mu.Lock()
	location, err := s.place(r, project, post)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.run(r, "Creating instance", "/1.0/instances/"+post.Name, func() (any, error) {
		if err := s.create(project, location, post); err != nil {
			return nil, err
		}
		if scriptedOf(r).halfMade {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.instances[key{project, post.Name}].rootless = true
			return nil, fail(http.StatusInternalServerError, "the server died over it")
		}
		if post.Start {
			return nil, s.startInstance(project, post.Name)
		}
		return nil, nil
	}), nil
}

// place checks a request for an instance and chooses its member. The lock is held.
func (s *Server) place(r *http.Request, project string, post incus.InstancesPost) (string, error) {
	if _, ok := s.projects[project]; !ok {
		return "", fail(http.StatusNotFound, "Failed loading project: Project not found")
	}
	if post.Source.Type != "image" && post.Source.Type != "none" {
		return "", fail(http.StatusBadRequest, "Unknown source type "+post.Source.Type)
	}
	if err := checkName(post.Name); err != nil {
		return "", err
	}
	home, err := s.holder(project, "features.profiles")
	if err != nil {
		return "", err
	}
	for _, name := range post.Profiles {
		if _, ok := s.profiles[key{home, name}]; !ok {
			return "", fail(http.StatusInternalServerError, fmt.Sprintf("Requested profile %q doesn't exist", name))
		}
	}
	return s.memberFor(r.URL.Query().Get("target"))
}

// memberFor chooses the member for a target: the one named, or the one with the fewest instances. The lock is held.
func (s *Server) memberFor(target string) (string, error) {
	if !s.clustered {
		if target != "" {
			return "", fail(http.StatusBadRequest, "Target only allowed when clustered")
		}
		return "none", nil
	}
	load := map[string]int{}
	for _, i := range s.instances {
		load[i.Location]++
	}
	best := ""
	for _, member := range s.members {
		name := member.ServerName
		fits := target == "" || target == name || (target[0] == '@' && slices.Contains(member.Groups, target[1:]))
		if !fits || member.Status != "Online" {
			continue
		}
		if best == "" || load[name] < load[best] {
			best = name
		}
	}
	if best == "" {
		return "", fail(http.StatusBadRequest, "No suitable cluster member could be found")
	}
	return best, nil
}

// create adds an instance, stopped.
func (s *Server) create(project, location string, post incus.InstancesPost) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	image, err := s.imageFor(project, post.Source)
	if err != nil {
		return err
	}
	record := func(err error) error {
		f := asFailure(err)
		return fail(f.code, "Failed creating instance record: "+f.text)
	}
	if _, taken := s.instances[key{project, post.Name}]; taken {
		return record(fail(http.StatusInternalServerError, "Add instance info to the database: Failed to create \"instances\" entry: UNIQUE constraint failed: instances.project_id, instances.name"))
	}
	if err := checkConfig(orDefault(post.Type, "container"), post.Config); err != nil {
		return record(err)
	}
	i := &instance{files: s.freshFiles(), addresses: map[string]netip.Addr{}}
	i.Instance = incus.Instance{
		Name: post.Name, Project: project, Location: location, Type: orDefault(post.Type, "container"), Status: incus.StatusStopped, StatusCode: 102,
		Description: post.Description, Architecture: "x86_64", Ephemeral: post.Ephemeral, Profiles: post.Profiles,
		Config: map[string]string{}, Devices: cloneDevices(post.Devices), CreatedAt: s.now(),
	}
	if i.Profiles == nil {
		i.Profiles = []string{DefaultProfile}
	}
	i.useImage(image)
	maps.Copy(i.Config, post.Config)
	i.Config["volatile.uuid"] = newID()
	i.Config["volatile.idmap.base"] = "0"
	i.Config["volatile.idmap.next"] = "[]"
	devices, err := s.checkDevices(i)
	if err == nil {
		err = s.checkChanged(i, nil, true)
	}
	if err != nil {
		f := asFailure(err)
		return record(fail(f.code, "Failed initializing instance: "+f.text))
	}
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		if devices[name]["type"] == "nic" && devices[name]["hwaddr"] == "" {
			i.Config["volatile."+name+".hwaddr"] = newHardwareAddress()
		}
	}
	s.instances[key{project, post.Name}] = i
	return nil
}

// newHardwareAddress makes an address with the prefix that Incus uses.
func newHardwareAddress() string {
	id := newID()
	return fmt.Sprintf("10:66:6a:%s:%s:%s", id[0:2], id[2:4], id[4:6])
}

func orDefault(value, def string) string {
	if value == "" {
		return def
	}
	return value
}
