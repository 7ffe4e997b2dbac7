package rollout

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Problem is something that would stop a run. Missing is set for what may still come to be before the run: a network that
// the same apply creates, say. Notice is the title of what stops nothing, and that a user should know of before. Holder is the
// App that has what can be had once only, and may give it up in the same apply.
type Problem struct {
	Missing  bool
	Notice   string
	Holder   string
	Upstream string // the App that is missing; empty for anything else
	Err      error
}

// Preflight looks, without writing, for what would stop a run: names that are taken, networks, pools, profiles and
// addresses that are not there or not free. Plans use it for warnings and errors, runs before their first write.
func (e *Engine) Preflight(ctx context.Context, w Wish, o Observation, p Plan) ([]Problem, error) {
	r := &run{Engine: e, wish: w, plan: p, observed: o}
	return r.problems(ctx)
}

func (r *run) preflight(ctx context.Context) error {
	problems, err := r.problems(ctx)
	if err != nil {
		return r.failed(nil, r.wish, "look at the server before the first write", err)
	}
	problems = slices.DeleteFunc(problems, func(p Problem) bool { return p.Notice != "" })
	if len(problems) == 0 {
		return nil
	}
	var all []error
	for _, p := range problems {
		all = append(all, p.Err)
	}
	f := r.failed(ErrRefused, r.wish, "begin", errors.Join(all...))
	for _, p := range problems {
		if errors.Is(p.Err, ErrExists) {
			f.Kind = ErrExists
		}
	}
	return f
}

func (r *run) problems(ctx context.Context) ([]Problem, error) {
	server, err := r.Incus.GetServer(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := fleet.Read(ctx, r.Incus)
	if err != nil {
		return nil, err
	}
	r.fleet = nodes
	if nodes.Mode == fleet.Standalone {
		r.nodeName = nodes.Nodes[0].Name
	}
	r.createStart = server.HasExtension("instance_create_start")
	var all []Problem
	if r.plan.Strategy == Refused {
		all = append(all, Problem{Err: fmt.Errorf("%w: %s", ErrRefused, r.plan.Reason)})
	}
	for _, m := range r.plan.Moves {
		for _, name := range r.namesNeeded(m) {
			if r.observed.taken[name] {
				all = append(all, Problem{Err: fmt.Errorf("%w: instance %q exists and does not carry the tags of App %q: it is somebody else's and is left alone; rename or remove it, or choose another name for the App", ErrExists, name, r.wish.App.Name)})
			}
		}
	}
	if len(r.observed.Hidden) > 0 && r.plan.hasWork(Create) {
		all = append(all, Problem{Err: fmt.Errorf("%w: the server shows no more than the name of %s, which may be this App's: nothing is made beside it until its node is back", ErrAway, joined(r.observed.Hidden))})
	}
	all = append(all, r.protected()...)
	all = append(all, r.nodeProblems()...)
	found, err := r.upstreamProblems(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, found...)
	if !r.plan.hasWork(Create, Replace) && r.wish.Endpoint == nil && len(r.wish.App.Volumes) == 0 {
		return all, nil
	}
	missing, err := r.missing(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, missing...)
	if len(missing) == 0 {
		found, err := r.volumeProblems(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if found, err = r.writerProblems(ctx); err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(missing) == 0 && r.wish.App.Floating != nil {
		found, err := r.floatingProblems(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(missing) == 0 && r.wish.Endpoint != nil {
		found, err := r.endpointProblems(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// protected tells which instances that the run would delete are protected from that.
func (r *run) protected() []Problem {
	var all []Problem
	for _, m := range r.plan.Moves {
		going := slices.Clone(m.Discard)
		if m.Blue != nil && (m.Action == Replace || m.Action == Remove) {
			going = append(going, m.Blue)
		}
		for _, i := range going {
			if i.config["security.protection.delete"] == "true" {
				all = append(all, Problem{Err: fmt.Errorf("%w: instance %s, which would be deleted in the end, is protected from deletion (security.protection.delete): unset that key first", ErrRefused, i.Name)})
			}
		}
	}
	return all
}

// nodeProblems tells which nodes members can't be put on.
func (r *run) nodeProblems() []Problem {
	var all []Problem
	if r.wish.Group != "" {
		switch nodes := r.fleet.Group(r.wish.Group); {
		case r.fleet.Mode == fleet.Standalone:
			all = append(all, Problem{Err: fmt.Errorf("cluster_group %q: the server is not a cluster", r.wish.Group)})
		case len(nodes) == 0:
			all = append(all, Problem{Missing: true, Err: fmt.Errorf("cluster group %q has no node", r.wish.Group)})
		}
	}
	for _, m := range r.plan.Moves {
		switch {
		case m.Action == Skip && r.wish.OfflineNodes == FailOffline:
			all = append(all, Problem{Err: fmt.Errorf("%w: member %q: %s, and offline_nodes is \"fail\"", ErrRefused, m.Member.Key, m.Reasons[0])})
		case m.Action != Create && m.Action != Replace, m.Member.Node == "":
		default:
			if _, known := r.fleet.Node(m.Member.Node); !known {
				all = append(all, Problem{Missing: true, Err: fmt.Errorf("node %q of member %q is not known to the server: its nodes are %s", m.Member.Node, m.Member.Key, r.fleet.Names())})
			}
		}
	}
	return all
}

// missing names what the instances need and the server doesn't have.
func (r *run) missing(ctx context.Context) ([]Problem, error) {
	var all []Problem
	absent := func(err error, format string, args ...any) error {
		if errors.Is(err, incus.ErrNotFound) {
			all = append(all, Problem{Missing: true, Err: fmt.Errorf(format, args...)})
			return nil
		}
		return err
	}
	a := r.wish.App
	var profiles []incus.Profile
	for _, name := range a.Profiles {
		profile, _, err := r.Incus.GetProfile(ctx, name)
		if err = absent(err, "profile %q does not exist in this project", name); err != nil {
			return nil, err
		}
		if profile == nil {
			continue
		}
		profiles = append(profiles, *profile)
		for _, device := range profile.Devices {
			if device["type"] == "disk" && device["path"] == "/" {
				r.pool = device["pool"]
			}
		}
		if n := managedNetwork(profile.Devices); n != "" {
			r.network = n // later profiles override earlier ones
		}
	}
	all = append(all, r.heldByProfiles(profiles)...)
	if a.Network != "" {
		r.network = a.Network
		if _, err := r.Incus.GetNetwork(ctx, a.Network); err != nil {
			if err = absent(err, "network %q does not exist", a.Network); err != nil {
				return nil, err
			}
		}
	}
	if a.StoragePool != "" {
		r.pool = a.StoragePool
		if _, err := r.Incus.GetStoragePool(ctx, a.StoragePool); err != nil {
			if err = absent(err, "storage pool %q does not exist", a.StoragePool); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// endpointProblems tells why the endpoint's address can't be had.
func (r *run) endpointProblems(ctx context.Context) ([]Problem, error) {
	listen := canonical(r.wish.Endpoint.ListenAddress)
	for _, f := range r.observed.Forwards {
		if r.network != "" && f.Network != r.network && r.plan.hasWork(Replace) {
			return []Problem{{Err: fmt.Errorf("%w: the endpoint %s is on network %q, from which no instance on %q can be reached, so that it can't lead to the old ones until the new ones serve. "+
				"Take endpoint out and apply, change network and apply, then put endpoint back", ErrRefused, f.ListenAddress, f.Network, r.network)}}, nil
		}
	}
	if r.network == "" {
		return []Problem{{Err: fmt.Errorf("endpoint needs a managed network: set network, or use a profile with a network device on one")}}, nil
	}
	if r.fleet.Mode == fleet.Cluster {
		return []Problem{{Err: fmt.Errorf("%w: a bridge of a cluster forwards on each node by itself, so that an endpoint on %q would not follow the App to another node", ErrRefused, r.network)}}, nil
	}
	network, err := r.Incus.GetNetwork(ctx, r.network)
	if errors.Is(err, incus.ErrNotFound) {
		return []Problem{{Missing: true, Err: fmt.Errorf("network %q of the profile does not exist", r.network)}}, nil
	}
	if err != nil {
		return nil, err
	}
	if !network.Managed || network.Type != "bridge" {
		return []Problem{{Err: fmt.Errorf("endpoint needs a managed bridge: network %q is of type %s", r.network, network.Type)}}, nil
	}
	if len(network.Config) == 0 {
		// Every managed bridge has a configuration. The server shows it to those who may change it.
		return []Problem{{Err: fmt.Errorf("%w: endpoint needs a forward on network %q, and this client may not change that network: "+
			"its certificate is restricted to projects, and the network is in another one. Use a client that isn't restricted, leave endpoint out, or put a proxy in front that such a client has made",
			incus.ErrForbidden, r.network)}}, nil
	}
	if err := listenable(listen, network); err != nil {
		return []Problem{{Err: err}}, nil
	}
	for _, f := range r.observed.Forwards {
		if f.Network == r.network && f.ListenAddress == listen {
			return nil, nil
		}
	}
	have, _, err := r.Incus.GetNetworkForward(ctx, r.network, listen)
	switch {
	case errors.Is(err, incus.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case !r.owns(*have, r.wish.App.Name):
		problem := Problem{Err: foreignForward(listen, r.network, *have)}
		if have.Config[app.KeyProject] == r.project() {
			problem.Holder = have.Config[app.KeyApp]
		}
		return []Problem{problem}, nil
	}
	return nil, nil
}

// listenable tells why a network can't listen on an address: it is the network's own, or its broadcast address.
func listenable(listen string, network *incus.Network) error {
	ip, err := netip.ParseAddr(listen)
	if err != nil {
		return fmt.Errorf("listen address %q is no IP address", listen)
	}
	key := "ipv4.address"
	if ip.Is6() {
		key = "ipv6.address"
	}
	own, err := netip.ParsePrefix(network.Config[key])
	switch {
	case err != nil:
		return fmt.Errorf("network %q has no %s (it is %q), so it can't lead %s anywhere", network.Name, key, network.Config[key], listen)
	case own.Addr() == ip:
		return fmt.Errorf("listen address %s is network %q's own address", listen, network.Name)
	case own.Masked().Addr() == ip && own.Bits() < own.Addr().BitLen():
		return fmt.Errorf("listen address %s is the network address of %q", listen, network.Name)
	case Broadcast(own) == ip:
		return fmt.Errorf("listen address %s is the broadcast address of network %q", listen, network.Name)
	}
	return nil
}

// Broadcast returns the last address of an IPv4 network, the zero address for IPv6 and for networks too small to have
// one.
func Broadcast(prefix netip.Prefix) netip.Addr {
	if !prefix.Addr().Is4() || prefix.Bits() > 30 {
		return netip.Addr{}
	}
	bytes := prefix.Masked().Addr().As4()
	for bit := prefix.Bits(); bit < 32; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	return netip.AddrFrom4(bytes)
}
