package renderer

import (
	"context"
	"net"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Renderer is one App type. Implementations hold no state and may be used by many goroutines at once.
type Renderer interface {
	// Type describes the App type: its name, class and parameters.
	Type() Type
	// Desired returns the whole instance to create for one member. It is pure: no I/O, no clock; the same input gives
	// the same Spec. An error says what of the App can't be rendered.
	Desired(a App, id app.Identity) (Spec, error)
	// Healthy says why the instance is not healthy right now, or nil. The engine does the bookkeeping of sustained health.
	Healthy(ctx context.Context, look Look, a App, target Target) error
	// Promote makes green authoritative and returns the instance that is then safe to retire ("" for none). It must be
	// safe to call again after a crash in the middle of it.
	Promote(ctx context.Context, h Handover) (retire string, err error)
}

// Reloader is a Renderer whose Spec.Hot files can be changed without a new generation.
type Reloader interface {
	// Reload makes a running instance use spec.Hot.Files. It validates before it replaces anything: where it returns
	// an error, the instance still runs on what it had. Where the members of an upstream have changed, files that are
	// File.Secret are left out: their content is not known then, and they stay as they are.
	Reload(ctx context.Context, machine Machine, a App, instance string, spec Spec) error
}

// Running is a Renderer for which an instance may be healthy by running alone: the engine then looks at the server with
// every sample, and not only where a probe has failed.
type Running interface {
	RunningIsHealthy(a App) bool
}

// Validator is a Renderer that checks more of an App than its parameters one by one. An error that is a Problem says where
// it is.
type Validator interface {
	Validate(a App) error
}

// Accorder is a Renderer whose members must agree on more than their type. Own is what one member has by per_member; an error
// says what of it can't be otherwise than in the App.
type Accorder interface {
	Accord(a, own App) error
}

// Ports is a Renderer that knows on which TCP ports its instances serve, so that the engine can wait for the
// connections of an old instance to end before it stops it.
type Ports interface {
	Ports(a App) []int
}

// Yielder is a Renderer whose running instances may hold what another of the App can take over without a break.
type Yielder interface {
	// Yield has an instance that is about to be drained and removed give that away, as far as another one is there to take
	// it. What it gives nobody, its stop will.
	Yield(ctx context.Context, machine Machine, a App, instance string) error
}

// Injector is a Renderer that tells the workload more of who it is than app.Identity does, in the words that the
// software knows. What it returns is not part of the spec and so of no hash: a new generation or another node is no
// change. A user can't set variables of these names.
type Injector interface {
	// Inject returns environment variables of one instance. It is pure, and returns the same names for every identity.
	Inject(id app.Identity) map[string]string
}

// Issuer is a Renderer that makes files for one instance alone, such as a certificate in its name. They are not part of
// the spec and so of no hash: each new instance gets its own, and nothing but its files holds them.
type Issuer interface {
	// Issue returns the files that a new instance gets beside those of its spec, before its first start. All of id is
	// known. It has no side effects: where it is called again after a crash, the new files replace the old ones.
	Issue(a App, id app.Identity, now time.Time) ([]File, error)
}

// Type describes an App type.
type Type struct {
	Name        string // as users write it, "nginx"
	Description string // one or two sentences for the docs
	Class       app.Class
	Params      []Param
	Floats      bool           // its members can hold a floating address among themselves
	Upstreams   []UpstreamSpec // what other Apps it may name; a type with any must be a Reloader
	Secrets     []SecretSpec   // what it takes through secrets_wo
	NeedsHealth bool           // the App must bring its own health block
}

// UpstreamSpec is one upstream that an App of a type may or must name.
type UpstreamSpec struct {
	Name        string // the key in upstreams; empty for any number under names of the user's choice
	Description string
	Required    bool
	Types       []string // App types that it may be; empty for any
}

// SecretSpec is one secret that an App of a type may or must bring.
type SecretSpec struct {
	Name        string // the key in secrets_wo
	Description string
	Required    bool
	Check       func(string) error // says what a value is that can't be it, without the value; nil accepts every one
}

// Classer is a Renderer whose class depends on the App: what is class 3 with peers can be class 6 alone.
type Classer interface {
	Class(a App) app.Class
}

// App is what a renderer sees of an App: values only, all known.
type App struct {
	Name        string
	Type        string
	Description string
	Image       string // reference as the user wrote it
	Version     string // of the software, empty where unknown
	Replicas    int
	Params      Params // checked, with defaults filled in
	Environment map[string]string
	Files       []File            // the user's own, by path
	Limits      map[string]string // Incus keys: limits.cpu, limits.memory, …
	Config      map[string]string // further Incus keys, as the user wrote them
	Profiles    []string
	Devices     map[string]map[string]string // further Incus devices, by name
	Volumes     []Volume                     // custom volumes, by name
	VM          bool                         // a virtual machine instead of a container
	Network     string                       // name of the network for eth0; empty: what the profiles say
	StoragePool string                       // for the root disk; empty: what the profiles say
	Health      *Health                      // the user's probe, nil for the type's own
	Floating    *Floating                    // an address that one of the members has at a time; nil for none
	Upstreams   map[string]Upstream          // the Apps that this one names, by the name it has for them
	// Secrets are known while an App is made or changed, and never after a refresh. What is rendered must not fail
	// without them, and only files with File.Secret may hold them.
	Secrets        map[string]string
	SecretsVersion string // another one means that the secrets are others; empty for none
	SecretsUID     int    // owner of the files of those secrets that the type makes nothing of itself
}

// Floating is an address that moves among the members of an App.
type Floating struct {
	Address   string // with its prefix length, "192.0.2.7/24"
	Interface string // inside the instances
	Router    int    // VRRP's virtual router id, 1 to 255: unique among the floating addresses of a network
}

// Upstream is an App that another one names, with its members as they are now. A rendering for a hash has no members: who
// they are is no part of what the App is, and changes without a new generation.
//
// Members may change only what is in Spec.Hot.Files, and only that may depend on them. Those files are also rendered without
// the App's configuration at hand, when an upstream's members change: from its name, member, version, parameters,
// environment and upstreams, and from nothing else of the App. See Binding.
type Upstream struct {
	App     string           `json:"app"`               // its name
	Type    string           `json:"type,omitempty"`    // its App type; empty where the members aren't known
	Members []UpstreamMember `json:"members,omitempty"` // by member
}

// UpstreamMember is one running member of an upstream.
type UpstreamMember struct {
	Member   string `json:"member"`
	Instance string `json:"instance"`
	Address  string `json:"address"` // IPv4 where it has one
}

// Volume is a custom volume that the App's instances mount.
type Volume struct {
	Name      string // within the App; also the name of the instance's device
	Path      string // where it is mounted, absolute
	Size      string // as Incus writes sizes, "10GiB"; empty for the pool's default
	Pool      string // empty for the pool that follows from placement
	Shared    bool   // one volume for all members, instead of one for each
	ShareSafe string // why several writers on one volume are safe; empty says that they are not
	Local     bool   // may be on one node although its members may move
	Discard   bool   // goes with the App, instead of being kept
}

// Spec is a whole instance, as Desired wants it. All of Spec but Hot takes a new generation to change.
type Spec struct {
	Config   map[string]string            // Incus keys, without limits and notes
	Devices  map[string]map[string]string // by device name
	Profiles []string
	Files    []File // pushed before the first start
	Secrets  string // version of the secrets, whose content is in no hash
	Hot      Hot
}

// Hot is the part of a Spec that is changed in place.
type Hot struct {
	Description string
	Config      map[string]string // limits.*, and notes: see IsNote
	Files       []File            // of a Reloader; pushed before the first start, changed through Reload
	Volumes     map[string]string // size and retention of volumes, by name
	Binding     string            // of an App that names others: see Binding; filled in by the engine
}

// File is one file inside an instance.
type File struct {
	Path    string // absolute, clean
	Content string
	Mode    int // permission bits; 0 means 0644
	UID     int
	GID     int
	// Secret says that the content must be kept nowhere else: not even its hash is. A change of it alone is no change of
	// the App.
	Secret bool
}

// Health is a user's own definition of healthy. Exactly one of the probes is set.
type Health struct {
	HTTP *HTTPProbe
	TCP  *TCPProbe
	Exec *ExecProbe
}

// HTTPProbe is healthy when a GET answers with one of the wanted statuses.
type HTTPProbe struct {
	Port   int
	Path   string // begins with "/"; empty means "/"
	Host   string // Host header; empty means the instance's address
	Status []int  // empty means any from 200 to 399
	// Loopback asks from inside the instance, at 127.0.0.1: for software that only listens there.
	Loopback bool
}

// TCPProbe is healthy when the port accepts a connection.
type TCPProbe struct{ Port int }

// ExecProbe is healthy when the command exits with 0 inside the instance.
type ExecProbe struct{ Command []string }

// Target is a running instance to look at.
type Target struct {
	Instance  string
	Addresses []string // global addresses, IPv4 first, without prefix length
}

// Dialer opens TCP connections to a port of an instance, from where that can be reached: through the server's port
// forward, directly, or through a command inside the instance.
type Dialer interface {
	Dial(ctx context.Context, t Target, port int) (net.Conn, error)
}

// Look is how a renderer looks at an instance. Each method returns nil or the reason, which says from where it looked.
type Look interface {
	Dialer
	HTTP(ctx context.Context, t Target, p HTTPProbe) error
	TCP(ctx context.Context, t Target, p TCPProbe) error
	Exec(ctx context.Context, t Target, p ExecProbe) error
	// FileAge tells how long ago a file of the instance was last changed, to the second. Both times are by the
	// instance's clock, so that it needn't agree with ours; the age is negative where that clock has been set back since.
	FileAge(ctx context.Context, instance, path string) (time.Duration, error)
}

// Machine is how a renderer acts inside an instance.
type Machine interface {
	Exec(ctx context.Context, instance string, post incus.ExecPost) (incus.ExecResult, error)
	// PushFile writes a file; folders above it are made where they are missing.
	PushFile(ctx context.Context, instance string, file File) error
}

// Handover is what Promote works on. Blue is empty for a first instance.
type Handover struct {
	App        App
	Member     string
	Generation int // of green
	Blue       Target
	Green      Target
	Peers      []Peer // of a Clustered type: all instances of the App, blue and green among them
	Machine    Machine
	Look       Look
}
