package incus

import (
	"context"
	"io"
	"time"
)

// Instance is one container or virtual machine as the server shows it.
//
// For an instance whose cluster member can't be reached, the server answers Status "Error" with Name, Location and
// Project only: Config, Devices, Profiles and State are nil then.
type Instance struct {
	Name            string                       `json:"name"`
	Project         string                       `json:"project"`
	Location        string                       `json:"location"`
	Type            string                       `json:"type"`
	Status          string                       `json:"status"`
	StatusCode      int                          `json:"status_code"`
	Description     string                       `json:"description"`
	Architecture    string                       `json:"architecture"`
	Ephemeral       bool                         `json:"ephemeral"`
	Profiles        []string                     `json:"profiles"`
	Config          map[string]string            `json:"config"`
	Devices         map[string]map[string]string `json:"devices"`
	ExpandedConfig  map[string]string            `json:"expanded_config"`
	ExpandedDevices map[string]map[string]string `json:"expanded_devices"`
	CreatedAt       time.Time                    `json:"created_at"`
	// LastUsedAt is when the instance was last started.
	LastUsedAt time.Time `json:"last_used_at"`
	// State is filled by GetInstances (recursion 2) and nil in the answer of GetInstance.
	State *InstanceState `json:"state"`
}

// InstancePut holds the fields of an instance that can be changed.
type InstancePut struct {
	Architecture string                       `json:"architecture,omitempty"`
	Config       map[string]string            `json:"config"`
	Devices      map[string]map[string]string `json:"devices"`
	Ephemeral    bool                         `json:"ephemeral"`
	Profiles     []string                     `json:"profiles"`
	Description  string                       `json:"description"`
}

// Put returns the changeable fields of the instance, to be edited and written back with UpdateInstance.
func (i *Instance) Put() InstancePut {
	return InstancePut{Architecture: i.Architecture, Config: i.Config, Devices: i.Devices, Ephemeral: i.Ephemeral, Profiles: i.Profiles, Description: i.Description}
}

// InstancesPost asks for a new instance.
type InstancesPost struct {
	Name   string         `json:"name"`
	Type   string         `json:"type,omitempty"` // "container" (default) or "virtual-machine"
	Source InstanceSource `json:"source"`
	// Start starts the instance within the create operation, which then fails where the start does. The instance exists
	// then all the same, stopped. Needs the API extension instance_create_start; a server without it ignores the field.
	Start bool `json:"start,omitempty"`
	InstancePut
}

// InstancePatch holds the fields of an instance that PatchInstance merges into what is there. A nil field stays as it is.
type InstancePatch struct {
	Config      map[string]string            `json:"config,omitempty"`
	Devices     map[string]map[string]string `json:"devices,omitempty"`
	Description *string                      `json:"description,omitempty"`
}

// InstancesFilter chooses what GetInstances lists.
type InstancesFilter struct {
	// Filter is an expression in the API's own filter language, for example `config.user.homelab-ops.app eq web`; empty
	// for every instance. A filter on config silently leaves out the instances of a cluster member that is offline.
	Filter string
	// AllProjects lists over every project instead of the client's own.
	AllProjects bool
	// NoState leaves out State, which costs the server a look into every running instance.
	NoState bool
}

// InstanceSource says what a new instance is made from. Only local images are used: see EnsureImage.
type InstanceSource struct {
	Type        string `json:"type"`                  // "image" or "none"
	Fingerprint string `json:"fingerprint,omitempty"` // of a local image
	Alias       string `json:"alias,omitempty"`       // of a local image
}

// InstanceState is what an instance does now.
type InstanceState struct {
	Status     string                          `json:"status"`
	StatusCode int                             `json:"status_code"`
	Pid        int64                           `json:"pid"`
	Processes  int64                           `json:"processes"`
	StartedAt  time.Time                       `json:"started_at"`
	Network    map[string]InstanceStateNetwork `json:"network"`
}

// InstanceStateNetwork is one network interface of a running instance, by its name inside the instance.
type InstanceStateNetwork struct {
	Addresses []InstanceStateAddress `json:"addresses"`
	HostName  string                 `json:"host_name"`
	Hwaddr    string                 `json:"hwaddr"`
	State     string                 `json:"state"` // "up", "down"
	Type      string                 `json:"type"`  // "broadcast", "loopback"
}

// InstanceStateAddress is one address of an interface.
type InstanceStateAddress struct {
	Family  string `json:"family"` // "inet", "inet6"
	Address string `json:"address"`
	Netmask string `json:"netmask"` // prefix length
	Scope   string `json:"scope"`   // "global", "link", "local"
}

// InstanceStatePut asks for a change of state.
type InstanceStatePut struct {
	Action  string `json:"action"`  // "start", "stop", "restart", "freeze", "unfreeze"
	Timeout int    `json:"timeout"` // seconds a clean stop may take; -1 waits for ever
	Force   bool   `json:"force"`
}

// Status words of an instance. Ready is Running with word from the guest; Error means its cluster member can't be reached.
const (
	StatusRunning = "Running"
	StatusReady   = "Ready"
	StatusStopped = "Stopped"
	StatusFrozen  = "Frozen"
	StatusError   = "Error"
)

// Running tells whether the instance runs: Ready counts as running.
func (i *Instance) Running() bool { return i.Status == StatusRunning || i.Status == StatusReady }

// Unreachable tells whether the server could show no more of the instance than its name and place.
func (i *Instance) Unreachable() bool { return i.Status == StatusError && i.Config == nil }

// File is one file to push into an instance.
type File struct {
	Content io.Reader
	Mode    int // permission bits, for example 0o644
	UID     int
	GID     int
}

// ExecPost asks for a command to be run inside an instance.
type ExecPost struct {
	Command     []string
	Environment map[string]string
	User        uint32
	Group       uint32
	Cwd         string
	Stdin       io.Reader
}

// ExecResult is how a command inside an instance ended. Output is cut at 1 MiB a stream.
type ExecResult struct {
	ExitCode int
	Stdout   []byte
	Stderr   []byte
}

// Operation is a background task of the server.
type Operation interface {
	// ID returns the operation's UUID.
	ID() string
	// Wait returns when the operation has ended: nil where it succeeded, an *Error of kind ErrOperation (with the
	// server's text, mapped to the narrower kinds where the text says so) where it failed, the context's error where
	// that ended first; the operation itself then goes on.
	Wait(ctx context.Context) error
}
