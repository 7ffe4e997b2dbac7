package incustest

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// volume is one custom volume. All fields are guarded by the server's lock.
type volume struct {
	incus.StorageVolume
	pool      string
	content   string // stands for everything in it; see SetVolumeContent
	snapshots []volumeSnapshot
	backups   []volumeBackup
}

// volumeSnapshot is what a volume was.
type volumeSnapshot struct {
	incus.StorageVolumeSnapshot
	content string
}

// remoteDrivers are the storage drivers whose pools every member of a cluster reaches.
var remoteDrivers = []string{"ceph", "cephfs", "lvmcluster"}

// storageDrivers is what the server says of its storage.
func storageDrivers() []incus.StorageDriver {
	var drivers []incus.StorageDriver
	for _, name := range []string{"btrfs", "dir", "lvm", "zfs"} {
		drivers = append(drivers, incus.StorageDriver{Name: name, Version: "1"})
	}
	for _, name := range remoteDrivers {
		drivers = append(drivers, incus.StorageDriver{Name: name, Version: "1", Remote: true})
	}
	return drivers
}

// poolOf finds the pool of a request. The lock is held.
func (s *Server) poolOf(r *http.Request) (incus.StoragePool, error) {
	for _, pool := range s.pools {
		if pool.Name == r.PathValue("pool") {
			return pool, nil
		}
	}
	return incus.StoragePool{}, fail(http.StatusNotFound, "Storage pool not found")
}

// volumePlace is where a request about volumes looks.
type volumePlace struct {
	pool    incus.StoragePool
	project string
	target  string // the member named, or empty
}

// placeOf reads pool, project and target of a request. The lock is held.
func (s *Server) placeOf(r *http.Request) (volumePlace, error) {
	pool, err := s.poolOf(r)
	if err != nil {
		return volumePlace{}, err
	}
	project, err := s.holder(projectOf(r), "features.storage.volumes")
	if err != nil {
		return volumePlace{}, err
	}
	target := r.URL.Query().Get("target")
	switch {
	case target != "" && !slices.ContainsFunc(s.members, func(m *incus.ClusterMember) bool { return m.ServerName == target }):
		return volumePlace{}, fail(http.StatusNotFound, "Cluster member not found") // a standalone server says so too
	case s.offline(target):
		return volumePlace{}, unreachable(target)
	}
	return volumePlace{pool: pool, project: project, target: target}, nil
}

// volumesAt lists volumes by name and location. An empty name, or target, is any. The lock is held.
func (s *Server) volumesAt(at volumePlace, name string) []*volume {
	var found []*volume
	for _, v := range s.volumes {
		if v.pool == at.pool.Name && v.Project == at.project && (name == "" || v.Name == name) && (at.target == "" || v.Location == "" || v.Location == at.target) {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b *volume) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Location, b.Location))
	})
	return found
}

// volumeAt finds one volume. The lock is held.
func (s *Server) volumeAt(at volumePlace, name string) (*volume, error) {
	found := s.volumesAt(at, name)
	switch {
	case len(found) > 1:
		return nil, fail(http.StatusInternalServerError, fmt.Sprintf("More than one cluster member has a volume named %q. Please target a specific member", name))
	case len(found) == 1 && s.offline(found[0].Location):
		return nil, unreachable(found[0].Location)
	case len(found) == 1:
		return found[0], nil
	case at.target != "":
		return nil, fail(http.StatusNotFound, "Storage volume not found")
	}
	return nil, fail(http.StatusNotFound, "Storage pool volume not found")
}

// volumeOf finds the volume of a request. The lock is held.
func (s *Server) volumeOf(r *http.Request) (*volume, error) {
	at, err := s.placeOf(r)
	if err != nil {
		return nil, err
	}
	return s.volumeAt(at, r.PathValue("volume"))
}

// unreachable is the answer of a server that must ask a member which is not there.
func unreachable(member string) *failure {
	return fail(http.StatusInternalServerError, fmt.Sprintf("Failed to connect to cluster member %q: dial tcp: i/o timeout", member))
}

// usersOf lists the instances whose devices name a volume. The lock is held.
func (s *Server) usersOf(v *volume) []*instance {
	var users []*instance
	for _, i := range s.sorted() {
		if home, err := s.holder(i.Project, "features.storage.volumes"); err != nil || home != v.Project || (v.Location != "" && v.Location != i.Location) {
			continue
		}
		_, devices := s.expand(i)
		if namesVolume(devices, v) {
			users = append(users, i)
		}
	}
	return users
}

// namesVolume tells whether one of some devices is a volume.
func namesVolume(devices map[string]map[string]string, v *volume) bool {
	for _, device := range devices {
		if isVolumeDevice(device) && device["pool"] == v.pool && device["source"] == v.Name {
			return true
		}
	}
	return false
}

// isVolumeDevice tells whether a device is a custom volume.
func isVolumeDevice(device map[string]string) bool {
	return device["type"] == "disk" && device["pool"] != "" && device["source"] != ""
}

// usedWhileRunning tells whether an instance that runs uses a volume. The lock is held.
func (s *Server) usedWhileRunning(v *volume) bool {
	return slices.ContainsFunc(s.usersOf(v), func(i *instance) bool { return i.Status != incus.StatusStopped })
}

// showVolume is a volume as the API shows it. The lock is held.
func (s *Server) showVolume(v *volume) incus.StorageVolume {
	out := v.StorageVolume
	out.Config, out.UsedBy = maps.Clone(v.Config), []string{}
	suffix := func(project string) string {
		if project == "default" {
			return ""
		}
		return "?project=" + project
	}
	for _, i := range s.usersOf(v) {
		out.UsedBy = append(out.UsedBy, "/1.0/instances/"+i.Name+suffix(i.Project))
	}
	for k, profile := range s.profiles {
		if k.project == v.Project && namesVolume(profile.Devices, v) {
			out.UsedBy = append(out.UsedBy, "/1.0/profiles/"+k.name+suffix(k.project))
		}
	}
	return out
}

// listVolumes lists volumes, and like the real server their snapshots among them.
func (s *Server) listVolumes(r *http.Request) (reply, error) {
	wanted, err := parseFilter(r.URL.Query().Get("filter"))
	if err != nil {
		return nil, fail(http.StatusInternalServerError, err.Error()) // a 400 for instances
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.placeOf(r)
	if err != nil {
		return nil, err
	}
	all := []incus.StorageVolume{}
	for _, v := range s.volumesAt(at, "") {
		all = append(all, s.showVolume(v))
		for _, snapshot := range v.snapshots {
			one := v.StorageVolume
			one.Name, one.Config, one.UsedBy = v.Name+"/"+snapshot.Name, maps.Clone(snapshot.Config), []string{}
			all = append(all, one)
		}
	}
	shown := []incus.StorageVolume{}
	for _, one := range all {
		ok, err := wanted.holds(func(field string) (string, error) { return fieldOfVolume(one, field) })
		if err != nil {
			return nil, err
		}
		if ok {
			shown = append(shown, one)
		}
	}
	return list(r, shown, func(v incus.StorageVolume) string { return volumeURL(at.pool.Name, v.Name) }), nil
}

func volumeURL(pool, name string) string {
	return "/1.0/storage-pools/" + pool + "/volumes/custom/" + name
}

// etag covers what PUT can change.
func (v *volume) etag() string { return etagOf(v.Name, v.Type, v.Description, v.Config) }

func (s *Server) getVolume(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.volumeOf(r)
	if err != nil {
		return nil, err
	}
	return objectWithETag(s.showVolume(v), v.etag()), nil
}

// getVolumeState tells what a volume takes, where its pool's driver counts that.
func (s *Server) getVolumeState(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.volumeOf(r)
	if err != nil {
		return nil, err
	}
	state := incus.StorageVolumeState{}
	if pool, err := s.poolOf(r); err == nil && pool.Driver != "dir" {
		state.Usage = &incus.StorageVolumeUsage{Used: int64(len(v.content))}
	}
	return object(state), nil
}

// postVolume makes a volume, empty or from a source.
func (s *Server) postVolume(r *http.Request) (reply, error) {
	var post struct {
		incus.StorageVolume
		Source volumeSource `json:"source"`
	}
	if err := read(r, &post); err != nil {
		return nil, err
	}
	s.mu.Lock()
	v, at, err := s.newVolume(r, post.StorageVolume)
	if err == nil && scriptedOf(r).operationError == "" {
		s.volumes = append(s.volumes, v) // one that is copied is there from the begin
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case post.Source.Type == "":
		return empty(), nil
	}
	return s.run(r, "Copying storage volume", "", func() (any, error) { return nil, s.fillVolume(v, at, post.Source) }), nil
}

// newVolume checks a request for a volume. The lock is held.
func (s *Server) newVolume(r *http.Request, post incus.StorageVolume) (*volume, volumePlace, error) {
	at, err := s.placeOf(r)
	if err != nil {
		return nil, at, err
	}
	if err := checkVolumeName(post.Name); err != nil {
		return nil, at, err
	}
	v := &volume{StorageVolume: post, pool: at.pool.Name}
	v.Type, v.ContentType, v.Project, v.CreatedAt = "custom", orDefault(post.ContentType, incus.ContentFilesystem), at.project, s.now()
	switch {
	case slices.Contains(remoteDrivers, at.pool.Driver):
		v.Location = ""
	case s.clustered:
		v.Location = orDefault(at.target, s.members[0].ServerName) // the member that got the request
	default:
		v.Location = "none"
	}
	if slices.ContainsFunc(s.volumesAt(at, post.Name), func(other *volume) bool { return other.Location == v.Location }) {
		return nil, at, fail(http.StatusConflict, "Volume by that name already exists")
	}
	if v.ContentType != incus.ContentFilesystem && v.ContentType != incus.ContentBlock {
		return nil, at, fail(http.StatusBadRequest, "Invalid volume content type name")
	}
	return v, at, v.setConfig(post.Config)
}

func checkVolumeName(name string) error {
	switch {
	case name == "":
		return fail(http.StatusBadRequest, "No name provided")
	case strings.Contains(name, "/"):
		return fail(http.StatusBadRequest, "Storage volume names may not contain slashes")
	}
	return nil
}

// volumeKeyRule is what a configuration key of a volume may be.
var volumeKeyRule = regexp.MustCompile(`^(size|(user|snapshots|security|initial|volatile|block|btrfs|zfs|lvm|ceph)\..+)$`)

// setConfig replaces a volume's configuration after checking it. Like the real server it forgets the volatile keys that
// are not given.
func (v *volume) setConfig(config map[string]string) error {
	kept := map[string]string{}
	for key, value := range config {
		if !volumeKeyRule.MatchString(key) {
			return refuse("Invalid option for volume %q option %q", v.Name, key)
		}
		if value != "" {
			kept[key] = value
		}
	}
	size, ok := bytesOf(kept["size"])
	if !ok {
		return refuse("Invalid value for volume %q option \"size\": Invalid value: %s", v.Name, kept["size"])
	}
	before, _ := bytesOf(v.Config["size"])
	switch {
	case v.ContentType == incus.ContentBlock && kept["size"] != "" && size < before:
		return refuse("Block volumes cannot be shrunk: Cannot be shrunk")
	case kept["size"] != "" && size < int64(len(v.content)):
		return refuse("Failed to run: btrfs qgroup limit -e none 0/1 /%s: exit status 1 (ERROR: unable to limit requested quota group: Disk quota exceeded)", v.Name)
	}
	v.Config = kept
	return nil
}

// sizeRule is a size with its unit.
var sizeRule = regexp.MustCompile(`^(\d+)(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)?$`)

// bytesOf reads a size. An empty one is none.
func bytesOf(text string) (int64, bool) {
	if text == "" {
		return 0, true
	}
	found := sizeRule.FindStringSubmatch(text)
	if found == nil {
		return 0, false
	}
	count, err := strconv.ParseInt(found[1], 10, 64)
	unit := map[string]int64{"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[found[2]]
	return count * unit, err == nil
}

// putVolume changes a volume, or brings a snapshot of it back.
func (s *Server) putVolume(r *http.Request) (reply, error) {
	var put struct {
		Description string            `json:"description"`
		Config      map[string]string `json:"config"`
		Restore     string            `json:"restore"`
	}
	if err := read(r, &put); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.volumeOf(r)
	if err == nil {
		err = matches(r, v.etag())
	}
	if err == nil && put.Restore != "" {
		err = s.restoreVolume(v, put.Restore)
	}
	if err != nil || (put.Restore != "" && put.Config == nil) {
		return empty(), err
	}
	if err := v.setConfig(put.Config); err != nil {
		return nil, err
	}
	v.Description = put.Description
	return empty(), nil
}

// postNamedVolume renames a volume, or offers it to another member.
func (s *Server) postNamedVolume(r *http.Request) (reply, error) {
	var post struct {
		Name      string `json:"name"`
		Migration bool   `json:"migration"`
	}
	if err := read(r, &post); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.volumeOf(r)
	if err != nil {
		return nil, err
	}
	if err := checkVolumeName(post.Name); err != nil {
		return nil, err
	}
	if post.Migration {
		return s.offerVolume(v), nil
	}
	taken := s.volumesAt(volumePlace{pool: incus.StoragePool{Name: v.pool}, project: v.Project, target: v.Location}, post.Name)
	switch {
	case len(taken) > 0:
		return nil, fail(http.StatusConflict, "Volume by that name already exists")
	case s.usedWhileRunning(v):
		return nil, fail(http.StatusInternalServerError, "Volume is still in use by running instances")
	}
	for _, i := range s.usersOf(v) {
		for _, device := range i.Devices {
			if isVolumeDevice(device) && device["pool"] == v.pool && device["source"] == v.Name {
				device["source"] = post.Name
			}
		}
	}
	v.Name = post.Name
	return created(volumeURL(v.pool, v.Name)), nil
}

func (s *Server) deleteVolume(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.volumeOf(r)
	if err != nil {
		return nil, err
	}
	if len(s.showVolume(v).UsedBy) > 0 {
		return nil, fail(http.StatusBadRequest, "The storage volume is still in use")
	}
	s.volumes = slices.DeleteFunc(s.volumes, func(other *volume) bool { return other == v })
	return empty(), nil
}
