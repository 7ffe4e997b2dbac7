package incustest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Names of what every new Server has.
const (
	// DefaultNetwork is a managed bridge with the subnet 10.99.0.0/24.
	DefaultNetwork = "incusbr0"
	// DefaultPool is a storage pool of the driver btrfs.
	DefaultPool = "default"
	// DefaultProfile gives an instance a root disk on DefaultPool and a network card on DefaultNetwork.
	DefaultProfile = "default"
)

// Server is an Incus that lives in memory. It is safe for concurrent use. Its hooks may be set before the first request
// only; they are called without any lock held and may use the Server.
type Server struct {
	// OnCopy returns what a volume gets of the content that is copied into it; nil copies all.
	OnCopy func(content string) string
	// OnStart is called when an instance starts. An error fails the start.
	OnStart func(instance incus.Instance) error
	// OnStop is called when an instance stops. An error fails the stop.
	OnStop func(instance incus.Instance, how incus.InstanceStatePut) error
	// OnExec runs a command in an instance. It returns incus.ErrCommandNotFound for one that does not exist. The context
	// ends when the command is killed. Without the hook every command succeeds and says nothing.
	OnExec func(ctx context.Context, command Command) (incus.ExecResult, error)
	// OnRun runs a command like OnExec, in whose place it is used, while its streams are open. Its context ends also when
	// the instance stops.
	OnRun func(ctx context.Context, command Command, streams Streams) (exitCode int, err error)
	// OnConnect connects to a port inside an instance. With it the server has the API extension instance_port_forward.
	OnConnect func(instance, address string, port int) (net.Conn, error)

	now         func() time.Time
	clustered   bool
	version     string
	extensions  []string
	directories []string
	trustToken  string

	mu         sync.Mutex
	trusted    bool
	members    []*incus.ClusterMember
	groups     []incus.ClusterGroup
	instances  map[key]*instance
	images     map[key]*incus.Image
	aliases    map[key]incus.ImageAlias
	remotes    map[remoteKey]*remoteImage
	networks   []*network
	pools      []incus.StoragePool
	volumes    []*volume
	profiles   map[key]*incus.Profile
	projects   map[string]*incus.Project
	operations map[string]*operation
	pulled     int // images fetched from a remote

	script  script
	serving serving
	work    sync.WaitGroup // slow operations
	stopped chan struct{}
	mux     *http.ServeMux
}

// key names something within a project.
type key struct{ project, name string }

// Option changes a new Server.
type Option func(*Server)

// WithClock gives the server another clock for the times it reports. Delays of slow operations use real timers, which
// testing/synctest fakes.
func WithClock(now func() time.Time) Option { return func(s *Server) { s.now = now } }

// WithMembers makes the server a cluster of these members, all online and in the group "default".
func WithMembers(names ...string) Option {
	return func(s *Server) {
		s.clustered = true
		for _, name := range names {
			s.members = append(s.members, &incus.ClusterMember{
				ServerName: name, URL: "https://" + name + ":8443", Status: "Online", Message: "Fully operational",
				Architecture: "x86_64", Roles: []string{"database"}, Groups: []string{"default"}, Config: map[string]string{},
			})
		}
		s.groups = append(s.groups, incus.ClusterGroup{Name: "default", Description: "Default cluster group", Members: names, Config: map[string]string{}})
	}
}

// WithGroup adds a cluster group. It comes after WithMembers.
func WithGroup(name string, members ...string) Option {
	return func(s *Server) {
		s.groups = append(s.groups, incus.ClusterGroup{Name: name, Members: members, Config: map[string]string{}})
		for _, member := range s.members {
			if slices.Contains(members, member.ServerName) {
				member.Groups = append(member.Groups, name)
			}
		}
	}
}

// WithNetwork adds a managed network. The subnet is that of a bridge, as the network's own address with its prefix length.
func WithNetwork(name, kind, subnet string) Option {
	return func(s *Server) { s.networks = append(s.networks, newNetwork(name, kind, subnet)) }
}

// WithPool adds a storage pool.
func WithPool(name, driver string) Option {
	return func(s *Server) {
		s.pools = append(s.pools, incus.StoragePool{Name: name, Driver: driver, Status: "Created", Config: map[string]string{}})
	}
}

// WithDirectories adds directories that every new instance has. A small usual set is always there.
func WithDirectories(paths ...string) Option {
	return func(s *Server) { s.directories = append(s.directories, paths...) }
}

// WithExtensions adds API extensions that the server claims to have.
func WithExtensions(names ...string) Option {
	return func(s *Server) { s.extensions = append(s.extensions, names...) }
}

// WithTrustToken makes the server distrust every client until one redeems this token.
func WithTrustToken(token string) Option {
	return func(s *Server) { s.trustToken, s.trusted = token, false }
}

// New makes a standalone server with a default project, profile, pool and network, and without images.
func New(options ...Option) *Server {
	s := &Server{
		now:         time.Now,
		version:     "6.0.4",
		extensions:  []string{"instance_create_start", "network_forward", "etag", "projects", "api_filtering", "instances_rebuild", "storage_volume_api_filtering"},
		directories: []string{"/bin", "/dev", "/etc", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/bin", "/usr/local", "/usr/local/bin", "/usr/sbin", "/var", "/var/lib", "/var/log", "/var/www"},
		trusted:     true,
		instances:   map[key]*instance{},
		images:      map[key]*incus.Image{},
		aliases:     map[key]incus.ImageAlias{},
		remotes:     map[remoteKey]*remoteImage{},
		networks:    []*network{newNetwork(DefaultNetwork, "bridge", "10.99.0.1/24")},
		pools:       []incus.StoragePool{{Name: DefaultPool, Driver: "btrfs", Status: "Created", Config: map[string]string{}}},
		profiles:    map[key]*incus.Profile{},
		projects:    map[string]*incus.Project{},
		operations:  map[string]*operation{},
		stopped:     make(chan struct{}),
	}
	s.projects["default"] = &incus.Project{Name: "default", Description: "Default Incus project", Config: map[string]string{
		"features.images": "true", "features.networks": "true", "features.profiles": "true", "features.storage.buckets": "true", "features.storage.volumes": "true",
	}}
	s.profiles[key{"default", DefaultProfile}] = &incus.Profile{
		Name: DefaultProfile, Description: "Default Incus profile", Config: map[string]string{},
		Devices: map[string]map[string]string{
			"root": {"type": "disk", "path": "/", "pool": DefaultPool},
			"eth0": {"type": "nic", "name": "eth0", "network": DefaultNetwork},
		},
	}
	for _, option := range options {
		option(s)
	}
	s.mux = s.routes()
	return s
}

// Patterns of the calls about volumes.
const (
	volumesPattern = "/1.0/storage-pools/{pool}/volumes/custom"
	volumePattern  = volumesPattern + "/{volume}"
)

// routes names every call that the server answers.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]handler{
		"GET /1.0":                                            s.getServer,
		"POST /1.0/certificates":                              s.postCertificate,
		"GET /1.0/instances":                                  s.listInstances,
		"POST /1.0/instances":                                 s.postInstance,
		"GET /1.0/instances/{name}":                           s.getInstance,
		"PUT /1.0/instances/{name}":                           s.putInstance,
		"PATCH /1.0/instances/{name}":                         s.patchInstance,
		"POST /1.0/instances/{name}":                          s.renameInstance,
		"DELETE /1.0/instances/{name}":                        s.deleteInstance,
		"GET /1.0/instances/{name}/state":                     s.getState,
		"PUT /1.0/instances/{name}/state":                     s.putState,
		"POST /1.0/instances/{name}/exec":                     s.postExec,
		"POST /1.0/instances/{name}/port-forward":             s.postPortForward,
		"GET /1.0/instances/{name}/files":                     s.getFile,
		"POST /1.0/instances/{name}/files":                    s.postFile,
		"DELETE /1.0/instances/{name}/files":                  s.deleteFile,
		"GET /1.0/operations":                                 s.listOperations,
		"GET /1.0/operations/{id}":                            s.getOperation,
		"GET /1.0/operations/{id}/wait":                       s.waitOperation,
		"GET /1.0/operations/{id}/websocket":                  s.operationWebsocket,
		"GET /1.0/images":                                     s.listImages,
		"POST /1.0/images":                                    s.postImage,
		"GET /1.0/images/{fingerprint}":                       s.getImage,
		"GET /1.0/images/aliases/{name...}":                   s.getAlias,
		"GET /1.0/networks":                                   s.listNetworks,
		"GET /1.0/networks/{network}":                         s.getNetwork,
		"GET /1.0/networks/{network}/forwards":                s.listForwards,
		"POST /1.0/networks/{network}/forwards":               s.postForward,
		"GET /1.0/networks/{network}/forwards/{listen...}":    s.getForward,
		"PUT /1.0/networks/{network}/forwards/{listen...}":    s.putForward,
		"DELETE /1.0/networks/{network}/forwards/{listen...}": s.deleteForward,
		"GET /1.0/profiles":                                   s.listProfiles,
		"POST /1.0/profiles":                                  s.postProfile,
		"GET /1.0/profiles/{name}":                            s.getProfile,
		"PUT /1.0/profiles/{name}":                            s.putProfile,
		"DELETE /1.0/profiles/{name}":                         s.deleteProfile,
		"GET /1.0/projects":                                   s.listProjects,
		"POST /1.0/projects":                                  s.postProject,
		"GET /1.0/projects/{name}":                            s.getProject,
		"DELETE /1.0/projects/{name}":                         s.deleteProject,
		"GET /1.0/instances/{name}/snapshots":                 s.listInstanceSnapshots,
		"POST /1.0/instances/{name}/snapshots":                s.postInstanceSnapshot,
		"DELETE /1.0/instances/{name}/snapshots/{snapshot}":   s.deleteInstanceSnapshot,
		"POST /1.0/instances/{name}/rebuild":                  s.rebuildInstance,
		"GET /1.0/storage-pools":                              s.listPools,
		"GET /1.0/storage-pools/{name}":                       s.getPool,
		"GET " + volumesPattern:                               s.listVolumes,
		"POST " + volumesPattern:                              s.postVolume,
		"GET " + volumePattern:                                s.getVolume,
		"PUT " + volumePattern:                                s.putVolume,
		"POST " + volumePattern:                               s.postNamedVolume,
		"DELETE " + volumePattern:                             s.deleteVolume,
		"POST " + volumePattern + "/backups":                  s.postVolumeBackup,
		"GET " + volumePattern + "/backups/{backup}/export":   s.exportVolumeBackup,
		"DELETE " + volumePattern + "/backups/{backup}":       s.deleteVolumeBackup,
		"GET " + volumePattern + "/state":                     s.getVolumeState,
		"GET " + volumePattern + "/snapshots":                 s.listVolumeSnapshots,
		"POST " + volumePattern + "/snapshots":                s.postVolumeSnapshot,
		"GET " + volumePattern + "/snapshots/{snapshot}":      s.getVolumeSnapshot,
		"DELETE " + volumePattern + "/snapshots/{snapshot}":   s.deleteVolumeSnapshot,
		"GET /1.0/cluster/members":                            s.listMembers,
		"GET /1.0/cluster/members/{name}":                     s.getMember,
		"GET /1.0/cluster/groups":                             s.listGroups,
		"GET /1.0/cluster/groups/{name}":                      s.getGroup,
	} {
		mux.Handle(pattern, s.answering(handle))
	}
	mux.Handle("/", s.answering(func(*http.Request) (reply, error) { return nil, fail(http.StatusNotFound, "not found") }))
	return mux
}

// getServer answers GET /1.0.
func (s *Server) getServer(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	auth, name := "untrusted", "incustest"
	if s.trusted {
		auth = "trusted"
	}
	if s.clustered {
		name = s.members[0].ServerName
	}
	extensions := slices.Clone(s.extensions)
	if s.OnConnect != nil {
		extensions = append(extensions, "instance_port_forward")
	}
	return object(incus.Server{
		APIExtensions: extensions, APIVersion: "1.0", Auth: auth, AuthMethods: []string{"tls"}, Config: map[string]any{},
		Environment: incus.Environment{
			Addresses: []string{}, Architectures: []string{"x86_64"}, Server: "incus", ServerName: name, ServerVersion: s.version,
			ServerClustered: s.clustered, Project: projectOf(r), StorageSupportedDrivers: storageDrivers(),
		},
	}), nil
}

// postCertificate redeems a trust token. A token works once.
func (s *Server) postCertificate(r *http.Request) (reply, error) {
	var body struct {
		TrustToken string `json:"trust_token"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, fail(http.StatusBadRequest, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trustToken == "" || body.TrustToken != s.trustToken {
		return nil, fail(http.StatusForbidden, "not authorized")
	}
	s.trusted, s.trustToken = true, ""
	return created("/1.0/certificates/0"), nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	s.serveScripted(w, r, func(w http.ResponseWriter, r *http.Request) {
		if !s.mayCall(r) {
			fail(http.StatusForbidden, "not authorized").write(w)
			return
		}
		s.mux.ServeHTTP(w, r)
	})
}

// mayCall tells what a client may do that is not trusted.
func (s *Server) mayCall(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trusted || r.URL.Path == "/1.0" || r.URL.Path == "/1.0/certificates"
}

// projectOf reads the project of a request.
func projectOf(r *http.Request) string {
	if name := r.URL.Query().Get("project"); name != "" {
		return name
	}
	return "default"
}

// holder is the project in which a project's objects of one kind live: its own or the default one. The lock is held.
func (s *Server) holder(project, feature string) (string, error) {
	found, ok := s.projects[project]
	if !ok {
		return "", fail(http.StatusNotFound, fmt.Sprintf("Failed loading project %q: Project not found", project))
	}
	if found.Config[feature] == "true" {
		return project, nil
	}
	return "default", nil
}

// mustPrefix parses a subnet that a test wrote.
func mustPrefix(subnet string) netip.Prefix { return netip.MustParsePrefix(subnet) }
