package incustest

import (
	"context"
	"errors"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

func (c *contract) images() {
	alias, err := c.Client.GetImageAlias(c.ctx, c.Image)
	c.must(err)
	same(c, "alias", alias.Name, c.Image)
	same(c, "type", alias.Type, "container")
	image, err := c.Client.GetImage(c.ctx, alias.Target)
	c.must(err)
	same(c, "fingerprint", image.Fingerprint, alias.Target)
	same(c, "image has its alias", slices.ContainsFunc(image.Aliases, func(a incus.ImageAliasName) bool { return a.Name == c.Image }), true)
	images, err := c.Client.GetImages(c.ctx)
	c.must(err)
	same(c, "image is listed", slices.ContainsFunc(images, func(i incus.Image) bool { return i.Fingerprint == alias.Target }), true)

	for _, source := range []incus.ImageSource{
		{Alias: c.Image}, {Fingerprint: alias.Target}, {Fingerprint: alias.Target[:20]}, {Alias: alias.Target[:20]},
	} {
		got, err := c.Client.EnsureImage(c.ctx, source, "container")
		c.must(err)
		same(c, "fingerprint of "+source.String(), got, alias.Target)
	}
	for _, source := range []incus.ImageSource{{Alias: unique("no")}, {Fingerprint: "00000000000000000000"}, {Alias: "00000000000000000000"}} {
		_, err := c.Client.EnsureImage(c.ctx, source, "container")
		c.wants(err, incus.ErrNotFound)
	}
	for _, source := range []incus.ImageSource{{}, {Alias: "a", Fingerprint: "b"}, {Alias: "a", Protocol: "incus"}} {
		_, err := c.Client.EnsureImage(c.ctx, source, "container")
		c.wants(err, incus.ErrInvalid)
	}
	_, err = c.Client.EnsureImage(c.ctx, incus.ImageSource{Alias: c.Image}, "virtual-machine")
	c.wants(err, incus.ErrInvalid)
}

func (c *contract) failedPulls() {
	_, err := c.Client.EnsureImage(c.ctx, incus.ImageSource{Server: "https://127.0.0.1:1", Protocol: "nosuch", Alias: "x"}, "container")
	c.wants(err, incus.ErrOperation, incus.ErrInvalid)
	_, err = c.Client.EnsureImage(c.ctx, incus.ImageSource{Server: "https://127.0.0.1:1", Protocol: "simplestreams", Alias: "x"}, "container")
	c.wants(err, incus.ErrOperation)
	server, serverErr := c.Client.GetServer(c.ctx)
	c.must(serverErr)
	if !server.HasExtension("instance_oci") {
		_, err = c.Client.EnsureImage(c.ctx, incus.ImageSource{Server: "https://127.0.0.1:1", Protocol: "oci", Alias: "x"}, "container")
		c.wants(err, incus.ErrUnsupported)
	}
}

func (c *contract) networks() {
	network, err := c.Client.GetNetwork(c.ctx, c.Network)
	c.must(err)
	same(c, "managed", network.Managed, true)
	same(c, "type", network.Type, "bridge")
	networks, err := c.Client.GetNetworks(c.ctx)
	c.must(err)
	same(c, "network is listed", slices.ContainsFunc(networks, func(n incus.Network) bool { return n.Name == c.Network }), true)
	same(c, "a network that is not managed is listed", slices.ContainsFunc(networks, func(n incus.Network) bool { return !n.Managed }), true)
	_, err = c.Client.GetNetwork(c.ctx, "nosuch")
	c.wants(err, incus.ErrNotFound)

	pool, err := c.Client.GetStoragePool(c.ctx, c.Pool)
	c.must(err)
	if pool.Driver == "" {
		c.Error("pool without a driver")
	}
	pools, err := c.Client.GetStoragePools(c.ctx)
	c.must(err)
	same(c, "pool is listed", slices.ContainsFunc(pools, func(p incus.StoragePool) bool { return p.Name == c.Pool }), true)
	_, err = c.Client.GetStoragePool(c.ctx, "nosuch")
	c.wants(err, incus.ErrNotFound)
}

// forwardFor is a forward to some address of the network.
func (c *contract) forwardFor(listen string) incus.NetworkForward {
	target := c.subnet().Masked().Addr().Next().Next().String()
	return incus.NetworkForward{ListenAddress: listen, Description: "made by the contract", Ports: []incus.NetworkForwardPort{
		{Protocol: "tcp", ListenPort: "80,443", TargetPort: "8080,8443", TargetAddress: target},
	}}
}

func (c *contract) forwards() {
	const listen = "203.0.113.207" // outside of every subnet, which is allowed
	c.Cleanup(func() { _ = c.Client.DeleteNetworkForward(context.Background(), c.Network, listen) })
	forward := c.forwardFor(listen)
	_, _, err := c.Client.GetNetworkForward(c.ctx, c.Network, listen)
	c.wants(err, incus.ErrNotFound)
	c.wants(c.Client.UpdateNetworkForward(c.ctx, c.Network, listen, forward, ""), incus.ErrNotFound)
	c.must(c.Client.CreateNetworkForward(c.ctx, c.Network, forward))
	c.wants(c.Client.CreateNetworkForward(c.ctx, c.Network, forward), incus.ErrAlreadyExists)

	got, etag, err := c.Client.GetNetworkForward(c.ctx, c.Network, listen)
	c.must(err)
	same(c, "listen address", got.ListenAddress, listen)
	same(c, "description", got.Description, forward.Description)
	equal(c, "ports", got.Ports, forward.Ports)
	forward.Ports[0].ListenPort, forward.Ports[0].TargetPort = "81", "8081"
	forward.Config = map[string]string{"user.mark": "1"}
	c.must(c.Client.UpdateNetworkForward(c.ctx, c.Network, listen, forward, etag))
	c.must(c.Client.UpdateNetworkForward(c.ctx, c.Network, listen, forward, "not-the-etag")) // the server takes no notice
	forwards, err := c.Client.GetNetworkForwards(c.ctx, c.Network)
	c.must(err)
	at := slices.IndexFunc(forwards, func(f incus.NetworkForward) bool { return f.ListenAddress == listen })
	if at < 0 {
		c.Fatalf("the forward is not listed: %+v", forwards)
	}
	equal(c, "ports after the update", forwards[at].Ports, forward.Ports)
	same(c, "mark", forwards[at].Config["user.mark"], "1")
	c.must(c.Client.DeleteNetworkForward(c.ctx, c.Network, listen))
	c.wants(c.Client.DeleteNetworkForward(c.ctx, c.Network, listen), incus.ErrNotFound)
	_, err = c.Client.GetNetworkForwards(c.ctx, "nosuch")
	c.wants(err, incus.ErrNotFound)
}

func (c *contract) refusedForwards() {
	const listen = "203.0.113.208"
	c.Cleanup(func() { _ = c.Client.DeleteNetworkForward(context.Background(), c.Network, listen) })
	for name, change := range map[string]func(*incus.NetworkForward){
		"target outside":    func(f *incus.NetworkForward) { f.Ports[0].TargetAddress = "192.0.2.1" },
		"target no address": func(f *incus.NetworkForward) { f.Ports[0].TargetAddress = "name" },
		"no target":         func(f *incus.NetworkForward) { f.Ports[0].TargetAddress = "" },
		"listen no address": func(f *incus.NetworkForward) { f.ListenAddress = "name" },
		"protocol":          func(f *incus.NetworkForward) { f.Ports[0].Protocol = "sctp" },
		"no listen port":    func(f *incus.NetworkForward) { f.Ports[0].ListenPort = "" },
		"numbers of ports":  func(f *incus.NetworkForward) { f.Ports[0].ListenPort = "80-82" },
		"ports twice":       func(f *incus.NetworkForward) { f.Ports = append(f.Ports, f.Ports[0]) },
		"option":            func(f *incus.NetworkForward) { f.Config = map[string]string{"nosuch": "1"} },
	} {
		forward := c.forwardFor(listen)
		change(&forward)
		if err := c.Client.CreateNetworkForward(c.ctx, c.Network, forward); !errors.Is(err, incus.ErrInvalid) {
			c.Errorf("%s: got %v, want %v", name, err, incus.ErrInvalid)
		}
	}
	good := c.forwardFor(listen)
	c.must(c.Client.CreateNetworkForward(c.ctx, c.Network, good))
	good.Ports[0].TargetAddress = "192.0.2.1"
	c.wants(c.Client.UpdateNetworkForward(c.ctx, c.Network, listen, good, ""), incus.ErrInvalid)
	c.wants(c.Client.CreateNetworkForward(c.ctx, "nosuch", c.forwardFor(listen)), incus.ErrNotFound)
}

func (c *contract) profiles() {
	name := unique("ct")
	profile := incus.Profile{Name: name, Description: "first", Config: map[string]string{"user.a": "1"}}
	c.Cleanup(func() { _ = c.Client.DeleteProfile(context.Background(), name) })
	_, _, err := c.Client.GetProfile(c.ctx, name)
	c.wants(err, incus.ErrNotFound)
	c.must(c.Client.CreateProfile(c.ctx, profile))
	c.wants(c.Client.CreateProfile(c.ctx, profile), incus.ErrAlreadyExists)
	got, etag, err := c.Client.GetProfile(c.ctx, name)
	c.must(err)
	same(c, "key", got.Config["user.a"], "1")
	same(c, "description", got.Description, "first")

	profile.Config = map[string]string{"user.b": "2"}
	c.must(c.Client.UpdateProfile(c.ctx, name, profile, etag))
	c.wants(c.Client.UpdateProfile(c.ctx, name, profile, etag), incus.ErrPrecondition)
	profiles, err := c.Client.GetProfiles(c.ctx)
	c.must(err)
	at := slices.IndexFunc(profiles, func(p incus.Profile) bool { return p.Name == name })
	if at < 0 {
		c.Fatalf("the profile is not listed: %+v", profiles)
	}
	same(c, "key that was left out", profiles[at].Config["user.a"], "")
	same(c, "new key", profiles[at].Config["user.b"], "2")

	instance := c.instance(func(post *incus.InstancesPost) { post.Profiles = []string{name} })
	same(c, "key from the profile", c.get(instance).ExpandedConfig["user.b"], "2")
	if err := c.Client.DeleteProfile(c.ctx, name); err == nil {
		c.Error("a profile in use was deleted")
	}
	c.must(c.done(c.Client.DeleteInstance(c.ctx, instance)))
	c.must(c.Client.DeleteProfile(c.ctx, name))
	c.wants(c.Client.DeleteProfile(c.ctx, name), incus.ErrNotFound)
	c.wants(c.Client.UpdateProfile(c.ctx, name, profile, ""), incus.ErrNotFound)
	c.wants(c.Client.CreateProfile(c.ctx, incus.Profile{Name: "with/slash"}), incus.ErrInvalid)
	c.wants(c.Client.CreateProfile(c.ctx, incus.Profile{Name: unique("ct"), Config: map[string]string{"nosuch": "1"}}), incus.ErrInvalid)
	c.wants(c.Client.DeleteProfile(c.ctx, "default"), incus.ErrForbidden)
}

func (c *contract) cluster() {
	_, err := c.Client.GetClusterMembers(c.ctx)
	c.wants(err, incus.ErrInvalid)
	_, err = c.Client.GetClusterMember(c.ctx, "nosuch")
	c.wants(err, incus.ErrInvalid)
	_, err = c.Client.GetClusterGroups(c.ctx)
	c.wants(err, incus.ErrInvalid)
	_, err = c.Client.GetClusterGroup(c.ctx, "nosuch")
	c.wants(err, incus.ErrInvalid)
}

func (c *contract) operations() {
	name := c.instance()
	op, err := c.Client.UpdateInstanceState(c.ctx, name, incus.InstanceStatePut{Action: "stop", Force: true})
	c.must(err)
	if op.ID() == "" {
		c.Error("operation without an ID")
	}
	first, second := op.Wait(c.ctx), op.Wait(c.ctx)
	c.wants(first, incus.ErrOperation)
	same(c, "second wait", second.Error(), first.Error())

	op, err = c.Client.UpdateInstanceState(c.ctx, name, incus.InstanceStatePut{Action: "start"})
	c.must(err)
	ended, cancel := context.WithCancel(c.ctx)
	cancel()
	c.wants(op.Wait(ended), context.Canceled)
	c.must(op.Wait(c.ctx)) // a wait that was given up can be taken up again
}
