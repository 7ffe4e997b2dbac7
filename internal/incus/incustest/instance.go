package incustest

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// instance is one instance. All fields are guarded by the server's lock.
type instance struct {
	incus.Instance
	files     map[string]*file
	addresses map[string]netip.Addr // by network card
	snapshots []instanceSnapshot
	startedAt string
	pid       int64
	died      chan struct{} // of the running instance: closed when it stops
	rootless  bool          // without a root disk: see HalfMakeNth
}

// nameRule is what an instance may be called.
var nameRule = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

func checkName(name string) error {
	if !nameRule.MatchString(name) {
		return fail(http.StatusBadRequest, "Invalid instance name: Name can only contain alphanumeric and hyphen characters")
	}
	return nil
}

// find looks an instance up, for anything but listing: the single GET of an instance on an offline member is a 500 and
// never a 404. The lock is held.
func (s *Server) find(project, name string) (*instance, error) {
	found, ok := s.instances[key{project, name}]
	if !ok {
		return nil, fail(http.StatusNotFound, fmt.Sprintf("Failed to fetch instance %q in project %q: Instance not found", name, project))
	}
	if s.offline(found.Location) {
		return nil, fail(http.StatusInternalServerError, fmt.Sprintf("Failed to connect to cluster member %q: dial tcp: i/o timeout", found.Location))
	}
	return found, nil
}

// show is an instance as the API shows it. The lock is held.
func (s *Server) show(i *instance, withState bool) incus.Instance {
	if s.offline(i.Location) {
		return incus.Instance{Name: i.Name, Project: i.Project, Location: i.Location, Type: i.Type, Status: incus.StatusError, StatusCode: 112}
	}
	out := i.Instance
	out.Config, out.Devices, out.Profiles = maps.Clone(i.Config), cloneDevices(i.Devices), slices.Clone(i.Profiles)
	out.ExpandedConfig, out.ExpandedDevices = s.expand(i)
	if withState {
		out.State = s.stateOf(i)
	}
	return out
}

// expand merges the profiles into an instance's own configuration. The lock is held.
func (s *Server) expand(i *instance) (map[string]string, map[string]map[string]string) {
	config, devices := map[string]string{}, map[string]map[string]string{}
	home, err := s.holder(i.Project, "features.profiles")
	if err != nil {
		home = "default"
	}
	for _, name := range i.Profiles {
		if profile, ok := s.profiles[key{home, name}]; ok {
			maps.Copy(config, profile.Config)
			maps.Copy(devices, cloneDevices(profile.Devices))
		}
	}
	maps.Copy(config, i.Config)
	maps.Copy(devices, cloneDevices(i.Devices))
	return config, devices
}

func cloneDevices(devices map[string]map[string]string) map[string]map[string]string {
	out := make(map[string]map[string]string, len(devices))
	for name, device := range devices {
		out[name] = maps.Clone(device)
	}
	return out
}

// sorted returns the instances in the order of project and name. The lock is held.
func (s *Server) sorted() []*instance {
	all := slices.Collect(maps.Values(s.instances))
	slices.SortFunc(all, func(a, b *instance) int {
		if c := strings.Compare(a.Project, b.Project); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

func (s *Server) listInstances(r *http.Request) (reply, error) {
	query := r.URL.Query()
	wanted, err := parseFilter(query.Get("filter"))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := []incus.Instance{}
	for _, i := range s.sorted() {
		if query.Get("all-projects") != "true" && i.Project != projectOf(r) {
			continue
		}
		one := s.show(i, query.Get("recursion") == "2")
		ok, err := wanted.holds(func(field string) (string, error) { return fieldOfInstance(one, field) })
		if err != nil {
			return nil, err
		}
		if ok {
			shown = append(shown, one)
		}
	}
	return list(r, shown, func(i incus.Instance) string { return "/1.0/instances/" + i.Name }), nil
}

// etag covers what PUT can change.
func (i *instance) etag() string {
	return etagOf(i.Architecture, i.Config, i.Devices, i.Ephemeral, i.Profiles, i.Description)
}

func (s *Server) getInstance(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(projectOf(r), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return objectWithETag(s.show(i, false), i.etag()), nil
}

func (s *Server) putInstance(r *http.Request) (reply, error) {
	name, project := r.PathValue("name"), projectOf(r)
	var put struct {
		incus.InstancePut
		Restore string `json:"restore"`
	}
	if err := read(r, &put); err != nil {
		return nil, err
	}
	s.mu.Lock()
	i, err := s.find(project, name)
	if err == nil {
		err = matches(r, i.etag())
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if put.Restore != "" {
		return s.run(r, "Restoring snapshot", "/1.0/instances/"+name, func() (any, error) { return nil, s.restoreInstance(project, name, put.Restore) }), nil
	}
	return s.run(r, "Updating instance", "/1.0/instances/"+name, func() (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		i, err := s.find(project, name)
		if err != nil {
			return nil, err
		}
		for key := range i.Config {
			if _, kept := put.Config[key]; !kept && strings.HasPrefix(key, "volatile.idmap.") {
				return nil, fail(http.StatusInternalServerError, "Volatile idmap keys can't be deleted by the user")
			}
		}
		return nil, s.change(i, put.InstancePut)
	}), nil
}

// change replaces what can be changed of an instance, after checking it. The lock is held.
func (s *Server) change(i *instance, put incus.InstancePut) error {
	if put.Profiles == nil {
		put.Profiles = i.Profiles
	}
	changed := *i
	changed.Config, changed.Devices, changed.Profiles = put.Config, put.Devices, put.Profiles
	changed.Description, changed.Ephemeral = put.Description, put.Ephemeral
	for key, value := range changed.Config {
		if value == "" {
			delete(changed.Config, key)
		}
	}
	if err := checkConfig(i.Type, changed.Config); err != nil {
		return fail(http.StatusInternalServerError, "Invalid config: "+err.Error())
	}
	if _, err := s.checkDevices(&changed); err != nil {
		return err
	}
	config, before := s.expand(i)
	if err := s.checkChanged(&changed, before, false); err != nil {
		return err
	}
	if err := s.checkLive(&changed, config); err != nil {
		return err
	}
	i.Config, i.Devices, i.Profiles, i.Description, i.Ephemeral = changed.Config, changed.Devices, changed.Profiles, changed.Description, changed.Ephemeral
	return nil
}

// patchInstance merges keys. Like the real server it empties a description that the patch does not give.
func (s *Server) patchInstance(r *http.Request) (reply, error) {
	var patch struct {
		Config      map[string]string            `json:"config"`
		Devices     map[string]map[string]string `json:"devices"`
		Profiles    []string                     `json:"profiles"`
		Description string                       `json:"description"`
	}
	if err := read(r, &patch); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(projectOf(r), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	if err := matches(r, i.etag()); err != nil {
		return nil, err
	}
	put := incus.InstancePut{Config: maps.Clone(i.Config), Devices: cloneDevices(i.Devices), Profiles: patch.Profiles, Description: patch.Description, Ephemeral: i.Ephemeral}
	maps.Copy(put.Config, patch.Config)
	maps.Copy(put.Devices, patch.Devices)
	if err := s.change(i, put); err != nil {
		return nil, err
	}
	return empty(), nil
}

func (s *Server) renameInstance(r *http.Request) (reply, error) {
	name, project := r.PathValue("name"), projectOf(r)
	var post struct {
		Name string `json:"name"`
	}
	if err := read(r, &post); err != nil {
		return nil, err
	}
	s.mu.Lock()
	_, err := s.find(project, name)
	_, taken := s.instances[key{project, post.Name}]
	s.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case checkName(post.Name) != nil:
		return nil, checkName(post.Name)
	case taken:
		return nil, fail(http.StatusConflict, fmt.Sprintf("Name %q already in use", post.Name))
	}
	return s.run(r, "Renaming instance", "/1.0/instances/"+name, func() (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		i, err := s.find(project, name)
		if err != nil {
			return nil, err
		}
		if i.Running() {
			return nil, fail(http.StatusInternalServerError, "Renaming of running instance not allowed")
		}
		delete(s.instances, key{project, name})
		i.Name = post.Name
		s.instances[key{project, post.Name}] = i
		return nil, nil
	}), nil
}

func (s *Server) deleteInstance(r *http.Request) (reply, error) {
	name, project := r.PathValue("name"), projectOf(r)
	s.mu.Lock()
	i, err := s.find(project, name)
	if err == nil && i.Status != incus.StatusStopped {
		err = fail(http.StatusBadRequest, "Instance is running")
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.run(r, "Deleting instance", "/1.0/instances/"+name, func() (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		i, err := s.find(project, name)
		if err != nil {
			return nil, err
		}
		if i.rootless {
			return nil, fail(http.StatusInternalServerError, fmt.Sprintf("Failed deleting instance %q in project %q: Error deleting storage volume: Failed deleting subvolume: Not a Btrfs subvolume: Invalid argument", name, project))
		}
		delete(s.instances, key{project, name})
		return nil, nil
	}), nil
}

// configRule is what a configuration key may be.
var configRule = regexp.MustCompile(`^(user|environment|limits|boot|security|image|raw|cloud-init|cluster|migration|snapshots|linux|nvidia|oci|agent)\.|^volatile\.(uuid|base_image|idmap|last_state|apply_template|cloud-init|eth\d+)\b`)

// checkConfig checks the configuration keys of a type of instance, and the values of a few.
func checkConfig(kind string, config map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(config)) {
		value := config[key]
		switch {
		case !configRule.MatchString(key), !knows(kind, key):
			return refuse("Unknown configuration key: %s", key)
		case key == "limits.cpu" && !regexp.MustCompile(`^\d[\d,-]*$`).MatchString(value):
			return refuse("Invalid CPU limit syntax")
		case key == "limits.memory" && !regexp.MustCompile(`^\d+(%|B|bytes|[kMGTPE]B|[KMGTPE]iB)?$`).MatchString(value):
			return refuse("Invalid value: %s", value)
		case strings.HasPrefix(key, "boot.autostart"), strings.HasPrefix(key, "security.nesting"):
			if _, err := strconv.ParseBool(value); err != nil && !strings.HasPrefix(key, "boot.autostart.") {
				return refuse("Invalid value for a boolean %q: %s", key, value)
			}
		}
	}
	return nil
}

// checkDevices checks an instance's devices, those of its profiles too, and returns them. The lock is held.
func (s *Server) checkDevices(i *instance) (map[string]map[string]string, error) {
	_, devices := s.expand(i)
	root, paths := false, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		device := devices[name]
		invalid := func(code int, text string) error {
			return fail(code, fmt.Sprintf("Invalid devices: Device validation failed for %q: %s", name, text))
		}
		if text := checkTypedDevice(i.Type, device); text != "" {
			return nil, invalid(http.StatusInternalServerError, text)
		}
		switch device["type"] {
		case "":
			return nil, invalid(http.StatusInternalServerError, fmt.Sprintf("Failed loading device %q: Missing device type in config", name))
		case "nic":
			if err := s.checkCard(device); err != nil {
				return nil, invalid(err.code, fmt.Sprintf("Failed loading device %q: %s", name, err.text))
			}
		case "disk":
			if at := device["path"]; at != "" && paths[at] {
				return nil, invalid(http.StatusInternalServerError, fmt.Sprintf("More than one disk device uses the same path %q", at))
			}
			paths[device["path"]] = true
			if device["path"] != "/" || device["source"] != "" {
				continue
			}
			root = true
			if !slices.ContainsFunc(s.pools, func(p incus.StoragePool) bool { return p.Name == device["pool"] }) {
				return nil, fail(http.StatusNotFound, "Failed loading storage pool: Storage pool not found")
			}
		}
	}
	if !root {
		return nil, fail(http.StatusInternalServerError, "Failed getting root disk: No root device could be found")
	}
	return devices, nil
}

// checkCard checks a network card. The lock is held.
func (s *Server) checkCard(device map[string]string) *failure {
	name := device["network"]
	if name == "" {
		return nil
	}
	n := s.network(name)
	if n == nil {
		return fail(http.StatusNotFound, fmt.Sprintf("Failed to load network %q for project \"default\": Network not found", name))
	}
	if text := device["ipv4.address"]; text != "" {
		if address, err := netip.ParseAddr(text); err != nil || !n.subnet.Contains(address) {
			return fail(http.StatusInternalServerError, fmt.Sprintf("Device IP address %q not within network %q subnet", text, name))
		} else if address == n.subnet.Addr() {
			return fail(http.StatusInternalServerError, fmt.Sprintf("IP address %q is assigned to parent managed network device %q", text, ""))
		}
	}
	return nil
}
