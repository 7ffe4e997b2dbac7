package rollout

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"sort"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Instance is one instance of an App, as observed. It is a value that survives being stored as JSON.
type Instance struct {
	Name        string   `json:"name"`
	Node        string   `json:"node"`
	Tags        app.Tags `json:"tags"`
	Running     bool     `json:"running"`
	Frozen      bool     `json:"frozen,omitempty"`
	Unreachable bool     `json:"unreachable,omitempty"`
	IPv4        string   `json:"ipv4,omitempty"`
	IPv6        string   `json:"ipv6,omitempty"`
	// Marked: it was stopped for a successor that may have run on its volumes since, and has not been started since.
	Marked bool `json:"marked,omitempty"`
	// Mounts are the custom volumes that it has, by device.
	Mounts map[string]Mount `json:"mounts,omitempty"`
	// Drift names what was changed by hand: keys whose value is not what the instance was given.
	Drift []string `json:"drift,omitempty"`
	// Stale names the upstreams whose members are not those any more that the instance is bound to.
	Stale []string `json:"stale,omitempty"`

	config    map[string]string
	described string // its description
	devices   map[string]map[string]string
	profiles  []string
	nics      map[string]incus.InstanceStateNetwork
	status    string
	memory    string // its memory limit, its own or a profile's
	vm        bool   // a virtual machine
}

// Addresses returns the global addresses, IPv4 first.
func (i *Instance) Addresses() []string {
	var all []string
	for _, address := range []string{i.IPv4, i.IPv6} {
		if address != "" {
			all = append(all, address)
		}
	}
	return all
}

// Member is what one slot has: the instance it is now, perhaps a candidate beside it, and older ones that a roll-out has
// replaced but not yet removed.
type Member struct {
	// Away says why the member can't be worked on now, because of its node; empty where it can.
	Away      string      `json:"away,omitempty"`
	Active    *Instance   `json:"active,omitempty"`
	Candidate *Instance   `json:"candidate,omitempty"`
	Retired   []*Instance `json:"retired,omitempty"`
}

// Observation is what Incus shows of one App.
type Observation struct {
	App string `json:"app"`
	// Type is the App type whose instances these are; empty for any. See only.
	Type    string             `json:"type,omitempty"`
	Members map[string]*Member `json:"members"`
	// Nodes are the statuses of a cluster's nodes by name; empty for a standalone server.
	Nodes map[string]string `json:"nodes,omitempty"`
	// Groups are the cluster groups of each node; nil where they aren't known.
	Groups map[string][]string `json:"groups,omitempty"`
	// Forwards are the endpoint addresses that carry our tag, on the App's network.
	Forwards []Forward `json:"forwards,omitempty"`
	// Pools are those of the volumes that its instances had, where none of these is left.
	Pools []string `json:"pools,omitempty"`
	// Hidden are instances of the App's names whose node can't be reached, so that whose they are is not known.
	Hidden []string `json:"hidden,omitempty"`

	// Presumed: it is no observation, but what is made of what Terraform has in state. Of the server it says nothing.
	Presumed bool `json:"-"`

	hiddenOn []string        // where the hidden ones are
	taken    map[string]bool // names that look like ours and are somebody else's
	others   []string        // instances that carry the App's name, and are of another type
	network  string          // where endpoints live; empty until an instance or a profile has told
}

// Forward is an endpoint on the server.
type Forward struct {
	Network       string         `json:"network"`
	ListenAddress string         `json:"listen_address"`
	Ports         []EndpointPort `json:"ports"`
	Target        string         `json:"target"` // address; empty where the rules don't agree on one
}

// OutOfSight is why nothing can be told of an App whose instances may be the hidden ones.
func (o Observation) OutOfSight() error {
	return fmt.Errorf("%w: of %s, which may be this one's, the server shows no more than the name", ErrAway, joined(o.Hidden))
}

// Empty tells whether nothing of the App exists.
func (o Observation) Empty() bool { return len(o.Members) == 0 && len(o.Forwards) == 0 }

// Keys returns the members' keys in order.
func (o Observation) Keys() []string {
	keys := make([]string, 0, len(o.Members))
	for key := range o.Members {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, app.CompareKeys)
	return keys
}

// Instances returns all of the App's instances, by member and generation.
func (o Observation) Instances() []*Instance {
	var all []*Instance
	for _, key := range o.Keys() {
		all = append(all, o.Members[key].instances()...)
	}
	return all
}

// unfinished tells whether what exists is a first creation that an earlier run left half-way: the first instance still says
// so, or nothing has been upgraded yet, and at least one member has only a candidate.
func (o Observation) unfinished() bool {
	for _, m := range o.Members {
		now := m.Active
		if now == nil {
			now = m.Candidate
		}
		if now != nil && now.config[app.KeyCreating] == "true" {
			return true
		}
	}
	half := false
	for _, m := range o.Members {
		for _, i := range []*Instance{m.Active, m.Candidate} {
			if i != nil && i.Tags.Generation > 0 {
				return false
			}
		}
		half = half || m.Active == nil
	}
	return half || len(o.Members) == 0
}

// Observe reads everything of an App: one list of its instances, one of a cluster's nodes, one of its network's forwards,
// and for an App that names others one of their instances. prior is what was observed before, if anything: of an instance whose node is away the server shows no more
// than its name, and what it was is known from there only. Its Type, where it has one, tells whose instances are the App's.
func (e *Engine) Observe(ctx context.Context, name string, prior Observation) (Observation, error) {
	o, nodes, err := e.settledList(ctx, name)
	if err != nil {
		return o, err
	}
	o.only(prior.Type)
	if len(o.Members) == 0 {
		// The server lists nothing for a project that isn't there, as for an empty one.
		if _, err := e.Incus.GetProject(ctx, e.project()); err != nil {
			return o, fmt.Errorf("look at project %q: %w", e.project(), err)
		}
	}
	o.recall(prior, nodes)
	o.locate(nodes)
	if err := e.reach(ctx, &o, nodes); err != nil {
		return o, err
	}
	if len(o.Members) == 0 {
		o.Pools = slices.Compact(slices.Sorted(slices.Values(prior.mountedPools())))
	}
	if o.network == "" && len(prior.Forwards) > 0 {
		// No instance is left to tell. An endpoint that outlived them all is the App's all the same.
		o.network = prior.Forwards[0].Network
	}
	if o.network != "" {
		if o.Forwards, err = e.forwards(ctx, o.network, name); err != nil {
			return o, err
		}
	}
	return o, e.follow(ctx, o)
}

const (
	settleLooks = 6
	settlePause = 500 * time.Millisecond
)

// settledList lists an App's instances on a cluster's nodes. An instance that is just being stopped is shown for a moment
// as one whose node is away (Incus 6.0.4), also by a standalone server: where its node is not away, it is asked for again.
func (e *Engine) settledList(ctx context.Context, name string) (Observation, fleet.Fleet, error) {
	for looks := 1; ; looks++ {
		o, err := e.list(ctx, name)
		if err != nil {
			return o, fleet.Fleet{}, err
		}
		nodes, err := fleet.Read(ctx, e.Incus) // after the list, which takes its time where a node has just been lost
		if err != nil || !o.passing(nodes) || looks == settleLooks {
			return o, nodes, err
		}
		if err := e.Clock.Sleep(ctx, settlePause); err != nil {
			return o, nodes, err
		}
	}
}

// passing tells whether an instance shows nothing of itself although its node is there.
func (o Observation) passing(f fleet.Fleet) bool {
	for _, location := range o.hiddenOn {
		if node, known := f.Node(location); f.Mode == fleet.Standalone || known && node.Online() {
			return true
		}
	}
	return false
}

// only leaves the instances of one App type. Where an App's instances were removed by hand, another resource may have taken
// its name since: an App, or a machine.
func (o *Observation) only(kind string) {
	if o.Type = kind; kind == "" {
		return
	}
	for key, m := range o.Members {
		var ours []*Instance
		for _, i := range m.instances() {
			if i.Tags.Type == kind {
				ours = append(ours, i)
				continue
			}
			o.taken[i.Name] = true
			o.others = append(o.others, i.Name)
		}
		if o.Members[key] = arrange(ours); len(ours) == 0 {
			delete(o.Members, key)
		}
	}
	slices.Sort(o.others)
}

// recall puts back what the server hides because its node can't be reached. A name that is not known from before, and
// that no member of the App could have, is another App's whose name begins with this one's.
func (o *Observation) recall(prior Observation, nodes fleet.Fleet) {
	var unknown []string
	for _, name := range o.Hidden {
		key, known := prior.find(name)
		if known == nil {
			if app.MayBeInstance(o.App, name, nodes.All()) {
				unknown = append(unknown, name)
			}
			continue
		}
		i := *known
		i.Unreachable, i.Running, i.Drift = true, false, nil
		m := o.Members[key]
		if m == nil {
			m = &Member{}
			o.Members[key] = m
		}
		*m = *arrange(append(m.instances(), &i))
	}
	o.Hidden = unknown
}

// locate notes which members can't be worked on because of their node.
func (o *Observation) locate(f fleet.Fleet) {
	if f.Mode != fleet.Cluster {
		return
	}
	o.Nodes, o.Groups = map[string]string{}, map[string][]string{}
	for _, n := range f.Nodes {
		o.Nodes[n.Name], o.Groups[n.Name] = n.Status, n.Groups
	}
	for _, m := range o.Members {
		for _, i := range m.instances() {
			switch status := o.Nodes[i.Node]; {
			case i.Unreachable:
				m.Away = fmt.Sprintf("node %s can't be reached (%s)", i.Node, cmp.Or(status, "not in the cluster"))
			case status != "" && status != fleet.StatusOnline && (m.Active == nil || i == m.Active):
				m.Away = fmt.Sprintf("node %s is %s", i.Node, status)
			}
		}
	}
}

// Arguments returns what the user wrote, as the App's instances keep it; empty where none does.
func (o Observation) Arguments() string {
	if i := o.first(); i != nil {
		return i.config[app.KeyArguments]
	}
	return ""
}

// Upstreams returns the Apps that this one names, by the names that it has for them, as its instances tell.
func (o Observation) Upstreams() map[string]string {
	named := map[string]string{}
	if i := o.first(); i != nil {
		now, err := bindingsOf(i.config)
		if err != nil {
			return named
		}
		for name, u := range now {
			named[name] = u.App
		}
	}
	return named
}

// first returns the active instance of the first member that can be reached, nil for none.
func (o Observation) first() *Instance {
	for _, key := range o.Keys() {
		if i := o.Members[key].Active; i != nil && !i.Unreachable {
			return i
		}
	}
	return nil
}

// find returns an instance by name, and its member's key.
func (o Observation) find(name string) (string, *Instance) {
	for key, m := range o.Members {
		for _, i := range m.instances() {
			if i.Name == name {
				return key, i
			}
		}
	}
	return "", nil
}

// instances returns all of a member's instances, by generation.
func (m *Member) instances() []*Instance {
	all := slices.Clone(m.Retired)
	for _, i := range []*Instance{m.Active, m.Candidate} {
		if i != nil {
			all = append(all, i)
		}
	}
	return all
}

// list reads an App's instances.
func (e *Engine) list(ctx context.Context, name string) (Observation, error) {
	all, err := e.listAll(ctx, name)
	if err != nil {
		return Observation{App: name, Members: map[string]*Member{}}, err
	}
	return all.of(name)
}

// listed is a list of the instances of some Apps.
type listed struct {
	instances []incus.Instance
	server    *incus.Server
}

// listAll reads the instances of Apps. They are asked for by name and not by tag: an instance whose node is away shows no
// tags.
func (e *Engine) listAll(ctx context.Context, names ...string) (listed, error) {
	list, err := e.Incus.GetInstances(ctx, incus.InstancesFilter{Filter: "name eq " + instancesOf(names...)})
	if err != nil {
		return listed{}, fmt.Errorf("list the instances of App %s: %w", quoted(names), err)
	}
	server, err := e.Incus.GetServer(ctx)
	if err != nil {
		return listed{}, fmt.Errorf("read the server's description: %w", err)
	}
	return listed{list, server}, nil
}

// of takes one App's instances out of the list.
func (l listed) of(name string) (Observation, error) {
	o := Observation{App: name, Members: map[string]*Member{}, taken: map[string]bool{}}
	matches := regexp.MustCompile(instancesOf(name))
	byMember := map[string][]*Instance{}
	for n := range l.instances {
		raw := &l.instances[n]
		if !matches.MatchString(raw.Name) {
			continue // another App's, or a server that does not know the filter
		}
		if raw.Unreachable() {
			o.Hidden = append(o.Hidden, raw.Name)
			o.hiddenOn = append(o.hiddenOn, raw.Location)
			continue
		}
		tags, ours, err := app.ParseTags(raw.Config)
		if !ours || tags.App != name {
			o.taken[raw.Name] = true
			continue
		}
		if err != nil {
			return o, fmt.Errorf("instance %q carries our tags, but %w: mend or remove the key with the Incus CLI", raw.Name, err)
		}
		i := newInstance(raw, tags, l.server)
		if o.network == "" {
			o.network = managedNetwork(raw.ExpandedDevices)
		}
		byMember[tags.Member] = append(byMember[tags.Member], i)
	}
	for key, instances := range byMember {
		o.Members[key] = arrange(instances)
	}
	return o, nil
}

// newInstance is an instance as the server shows it. A standalone server is one node, by its own name.
func newInstance(raw *incus.Instance, tags app.Tags, server *incus.Server) *Instance {
	i := &Instance{
		Name: raw.Name, Node: raw.Location, Tags: tags, Running: raw.Running(), Frozen: raw.Status == incus.StatusFrozen,
		Marked: holds(raw), Mounts: mountsIn(raw.Devices), described: raw.Description, config: given(raw), devices: raw.Devices, profiles: raw.Profiles, status: raw.Status,
		memory: raw.ExpandedConfig[keyMemory], vm: raw.Type == "virtual-machine",
	}
	if i.Node == "none" || i.Node == "" {
		i.Node = server.Environment.ServerName
	}
	i.see(raw.State)
	return i
}

// arrange sorts a member's instances into their roles: the active one is the one of the highest generation that was
// promoted, older ones are retired, a newer one is the candidate.
func arrange(instances []*Instance) *Member {
	slices.SortFunc(instances, func(a, b *Instance) int {
		return cmp.Or(cmp.Compare(a.Tags.Generation, b.Tags.Generation), cmp.Compare(a.Name, b.Name)) // web-g0 and web-0-g0 are one generation
	})
	m := &Member{}
	for _, i := range instances {
		switch {
		case i.Tags.Phase == app.Active:
			if m.Active != nil {
				m.Retired = append(m.Retired, m.Active)
			}
			m.Active = i
		case m.Candidate != nil:
			m.Retired = append(m.Retired, m.Candidate)
			m.Candidate = i
		default:
			m.Candidate = i
		}
	}
	if m.Candidate != nil && m.Active != nil && m.Candidate.Tags.Generation < m.Active.Tags.Generation {
		m.Retired = append(m.Retired, m.Candidate)
		m.Candidate = nil
	}
	return m
}

// see takes the addresses from an instance's state: the first global one of each family, by interface name. One that the App's
// members hold one at a time is no instance's own.
func (i *Instance) see(state *incus.InstanceState) {
	i.IPv4, i.IPv6 = "", ""
	if state == nil {
		return
	}
	i.nics = state.Network
	names := make([]string, 0, len(state.Network))
	for name := range state.Network {
		names = append(names, name)
	}
	sort.Strings(names)
	floating, _ := floatingOf(i.config)
	for _, name := range names {
		for _, a := range state.Network[name].Addresses {
			if a.Scope != "global" || a.Address == floating {
				continue
			}
			switch {
			case a.Family == "inet" && i.IPv4 == "":
				i.IPv4 = a.Address
			case a.Family == "inet6" && i.IPv6 == "":
				i.IPv6 = a.Address
			}
		}
	}
}

// managedNetwork returns the managed network of the first network device, by device name.
func managedNetwork(devices map[string]map[string]string) string {
	names := make([]string, 0, len(devices))
	for name := range devices {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if d := devices[name]; d["type"] == "nic" && d["network"] != "" {
			return d["network"]
		}
	}
	return ""
}

// addressFor returns the instance's address of the family that a listen address has.
func (i *Instance) addressFor(listen string) string {
	if ip, err := netip.ParseAddr(listen); err == nil && ip.Unmap().Is4() {
		return i.IPv4
	}
	return i.IPv6
}
