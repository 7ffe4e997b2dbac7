package incustest

import (
	"maps"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

func (c *contract) server() {
	server, err := c.Client.GetServer(c.ctx)
	c.must(err)
	same(c, "auth", server.Auth, "trusted")
	same(c, "clustered", server.Environment.ServerClustered, false)
	same(c, "has instance_create_start", server.HasExtension("instance_create_start"), true)
	if server.Environment.ServerVersion == "" {
		c.Error("the server has no version")
	}
	fresh, err := c.Client.GetFreshServer(c.ctx)
	c.must(err)
	same(c, "version", fresh.Environment.ServerVersion, server.Environment.ServerVersion)
	_, err = c.Client.UseProject(unique("no")).GetServer(c.ctx)
	c.must(err) // says nothing about the project
}

func (c *contract) projects() {
	name := unique("ct")
	project := incus.Project{Name: name, Description: "made by the contract", Config: map[string]string{"features.images": "false"}}
	_, err := c.Client.GetProject(c.ctx, name)
	c.wants(err, incus.ErrNotFound)
	list, err := c.Client.UseProject(name).GetInstances(c.ctx, incus.InstancesFilter{})
	c.must(err) // a project that is not there just looks empty
	same(c, "instances", len(list), 0)

	c.must(c.Client.CreateProject(c.ctx, project))
	c.wants(c.Client.CreateProject(c.ctx, project), incus.ErrAlreadyExists)
	got, err := c.Client.GetProject(c.ctx, name)
	c.must(err)
	same(c, "description", got.Description, project.Description)
	same(c, "features.images", got.Config["features.images"], "false")
	same(c, "features.profiles", got.Config["features.profiles"], "true")
	_, err = c.Client.UseProject(name).EnsureImage(c.ctx, incus.ImageSource{Alias: unique("no")}, "container")
	c.wants(err, incus.ErrNotFound)

	c.must(c.Client.UseProject(name).CreateProfile(c.ctx, incus.Profile{Name: "inside"}))
	if err := c.Client.DeleteProject(c.ctx, name); err == nil {
		c.Error("a project that is not empty was deleted")
	}
	c.must(c.Client.UseProject(name).DeleteProfile(c.ctx, "inside"))
	c.must(c.Client.DeleteProject(c.ctx, name))
	c.wants(c.Client.DeleteProject(c.ctx, name), incus.ErrNotFound)
	c.wants(c.Client.DeleteProject(c.ctx, "default"), incus.ErrForbidden)
	_, err = c.Client.UseProject(name).GetProfiles(c.ctx)
	c.wants(err, incus.ErrNotFound)
}

func (c *contract) life() {
	name, other := c.instance(), c.instance()
	got := c.get(name)
	same(c, "status", got.Status, incus.StatusStopped)
	same(c, "location", got.Location, "none")
	same(c, "type", got.Type, "container")
	same(c, "own key", got.Config["user.contract"], "yes")
	if got.Config["volatile.base_image"] == "" || got.ExpandedDevices["root"]["pool"] != c.Pool {
		c.Errorf("instance without base image or root disk: %+v", got)
	}
	state, err := c.Client.GetInstanceState(c.ctx, name)
	c.must(err)
	same(c, "state", state.Status, incus.StatusStopped)
	same(c, "cards while stopped", len(state.Network), 0)

	c.wants(c.done(c.Client.CreateInstance(c.ctx, c.request(name))), incus.ErrAlreadyExists, incus.ErrOperation)
	start := incus.InstanceStatePut{Action: "start"}
	c.must(c.done(c.Client.UpdateInstanceState(c.ctx, name, start)))
	c.wants(c.done(c.Client.UpdateInstanceState(c.ctx, name, start)), incus.ErrNoChange, incus.ErrOperation)
	same(c, "running", c.get(name).Running(), true)
	if address := c.addressOf(name); !c.subnet().Contains(address) {
		c.Errorf("address %s is not of the network", address)
	}

	c.wants(c.done(c.Client.DeleteInstance(c.ctx, name)), incus.ErrInvalid)
	c.wants(c.done(c.Client.RenameInstance(c.ctx, name, unique("ct"))), incus.ErrOperation)
	c.wants(c.done(c.Client.UpdateInstanceState(c.ctx, name, incus.InstanceStatePut{Action: "fly"})), incus.ErrInvalid)
	c.must(c.done(c.Client.UpdateInstanceState(c.ctx, name, incus.InstanceStatePut{Action: "freeze"})))
	same(c, "frozen", c.get(name).Status, incus.StatusFrozen)
	c.must(c.done(c.Client.UpdateInstanceState(c.ctx, name, incus.InstanceStatePut{Action: "unfreeze"})))
	c.must(c.done(c.Client.UpdateInstanceState(c.ctx, name, incus.InstanceStatePut{Action: "restart", Force: true})))
	stop := incus.InstanceStatePut{Action: "stop", Force: true}
	c.must(c.done(c.Client.UpdateInstanceState(c.ctx, name, stop)))
	c.wants(c.done(c.Client.UpdateInstanceState(c.ctx, name, stop)), incus.ErrNoChange, incus.ErrOperation)

	c.wants(c.done(c.Client.RenameInstance(c.ctx, name, other)), incus.ErrAlreadyExists)
	c.wants(c.done(c.Client.RenameInstance(c.ctx, name, "not_a_name")), incus.ErrInvalid)
	renamed := unique("ct")
	c.tidy(renamed)
	c.must(c.done(c.Client.RenameInstance(c.ctx, name, renamed)))
	_, _, err = c.Client.GetInstance(c.ctx, name)
	c.wants(err, incus.ErrNotFound)
	same(c, "key after rename", c.get(renamed).Config["user.contract"], "yes")
	c.must(c.done(c.Client.DeleteInstance(c.ctx, renamed)))

	c.wants(c.done(c.Client.DeleteInstance(c.ctx, renamed)), incus.ErrNotFound)
	c.wants(c.done(c.Client.UpdateInstanceState(c.ctx, renamed, start)), incus.ErrNotFound)
	c.wants(c.done(c.Client.RenameInstance(c.ctx, renamed, unique("ct"))), incus.ErrNotFound)
	_, err = c.Client.GetInstanceState(c.ctx, renamed)
	c.wants(err, incus.ErrNotFound)
}

func (c *contract) createAndStart() {
	same(c, "running after create", c.get(c.running()).Running(), true)

	post := c.request(unique("ct"))
	c.tidy(post.Name)
	post.Start = true
	post.Devices["eth9"] = map[string]string{"type": "nic", "nictype": "bridged", "parent": "nosuch0"}
	c.wants(c.done(c.Client.CreateInstance(c.ctx, post)), incus.ErrOperation)
	same(c, "status after a failed start", c.get(post.Name).Status, incus.StatusStopped)
}

func (c *contract) refusedCreates() {
	for _, refused := range []struct {
		name   string
		client *incus.Client
		change func(*incus.InstancesPost)
		kind   error
	}{
		{name: "image", change: func(p *incus.InstancesPost) { p.Source.Alias = unique("no") }, kind: incus.ErrInvalid},
		{name: "fingerprint", change: func(p *incus.InstancesPost) {
			p.Source = incus.InstanceSource{Type: "image", Fingerprint: strings.Repeat("0", 64)}
		}, kind: incus.ErrInvalid},
		{name: "name", change: func(p *incus.InstancesPost) { p.Name = "not_a_name" }, kind: incus.ErrInvalid},
		{name: "profile", change: func(p *incus.InstancesPost) { p.Profiles = []string{"nosuch"} }, kind: incus.ErrInvalid},
		{name: "network", change: func(p *incus.InstancesPost) { p.Devices["eth0"]["network"] = "nosuch" }, kind: incus.ErrInvalid},
		{name: "pool", change: func(p *incus.InstancesPost) { p.Devices["root"]["pool"] = "nosuch" }, kind: incus.ErrInvalid},
		{name: "no root disk", change: func(p *incus.InstancesPost) { delete(p.Devices, "root") }, kind: incus.ErrInvalid},
		{name: "device without type", change: func(p *incus.InstancesPost) { p.Devices["odd"] = map[string]string{} }, kind: incus.ErrInvalid},
		{name: "address outside", change: func(p *incus.InstancesPost) { p.Devices["eth0"]["ipv4.address"] = "192.0.2.77" }, kind: incus.ErrInvalid},
		{name: "address of the network", change: func(p *incus.InstancesPost) { p.Devices["eth0"]["ipv4.address"] = c.subnet().Addr().String() }, kind: incus.ErrInvalid},
		{name: "value", change: func(p *incus.InstancesPost) { p.Config["limits.cpu"] = "abc" }, kind: incus.ErrInvalid},
		{name: "key", change: func(p *incus.InstancesPost) { p.Config["nosuch.key"] = "1" }, kind: incus.ErrInvalid},
		{name: "key of a virtual machine", change: func(p *incus.InstancesPost) { p.Config["security.secureboot"] = "false" }, kind: incus.ErrInvalid},
		{name: "limit of a virtual machine", change: func(p *incus.InstancesPost) { p.Config["limits.memory.hugepages"] = "true" }, kind: incus.ErrInvalid},
		{name: "TPM without a path", change: func(p *incus.InstancesPost) { p.Devices["tpm"] = map[string]string{"type": "tpm"} }, kind: incus.ErrInvalid},
		{name: "source", change: func(p *incus.InstancesPost) { p.Source.Type = "thin-air" }, kind: incus.ErrInvalid},
		{name: "project", client: c.Client.UseProject(unique("no")), change: func(*incus.InstancesPost) {}, kind: incus.ErrNotFound},
		{name: "target on a standalone server", client: c.Client.UseTarget("elsewhere"), change: func(*incus.InstancesPost) {}, kind: incus.ErrInvalid},
	} {
		post := c.request(unique("ct"))
		refused.change(&post)
		client := refused.client
		if client == nil {
			client = c.Client
		}
		op, err := client.CreateInstance(c.ctx, post)
		if err == nil {
			err = op.Wait(c.ctx)
			c.wants(err, incus.ErrOperation)
			c.wantsNot(err, incus.ErrNotFound) // it is not the instance that is missing
		}
		c.wants(err, refused.kind)
		if _, _, err := c.Client.GetInstance(c.ctx, post.Name); err == nil {
			c.Errorf("wrong %s: the instance exists", refused.name)
			c.tidy(post.Name)
		}
	}
}

func (c *contract) patch() {
	name := c.instance(func(post *incus.InstancesPost) { post.Description = "kept" })
	patch := func(config map[string]string) error {
		return c.Client.PatchInstance(c.ctx, name, incus.InstancePatch{Config: config}, "")
	}
	c.must(patch(map[string]string{"user.a": "1", "user.b": "2"}))
	c.must(patch(map[string]string{"user.a": "", "user.c": "3"}))
	got := c.get(name)
	_, left := got.Config["user.a"]
	same(c, "key with an empty value is there", left, false)
	same(c, "key that was not named", got.Config["user.b"], "2")
	same(c, "new key", got.Config["user.c"], "3")
	same(c, "description", got.Description, "kept")
	same(c, "root disk", got.Devices["root"]["pool"], c.Pool)

	text := "changed"
	c.must(c.Client.PatchInstance(c.ctx, name, incus.InstancePatch{
		Description: &text, Devices: map[string]map[string]string{"none": {"type": "none"}},
	}, ""))
	got = c.get(name)
	same(c, "description", got.Description, "changed")
	same(c, "new device", got.Devices["none"]["type"], "none")
	same(c, "root disk", got.Devices["root"]["pool"], c.Pool)
	none := ""
	c.must(c.Client.PatchInstance(c.ctx, name, incus.InstancePatch{Description: &none}, ""))
	same(c, "emptied description", c.get(name).Description, "")

	_, etag, err := c.Client.GetInstance(c.ctx, name)
	c.must(err)
	c.must(c.Client.PatchInstance(c.ctx, name, incus.InstancePatch{Config: map[string]string{"user.d": "4"}}, etag))
	c.wants(c.Client.PatchInstance(c.ctx, name, incus.InstancePatch{Config: map[string]string{"user.d": "5"}}, etag), incus.ErrPrecondition)
	same(c, "key after a refused patch", c.get(name).Config["user.d"], "4")
	c.wants(patch(map[string]string{"nosuch.key": "1"}), incus.ErrInvalid)
	c.wants(patch(map[string]string{"limits.cpu": "abc"}), incus.ErrInvalid)
	c.wants(c.Client.PatchInstance(c.ctx, unique("no"), incus.InstancePatch{Description: &none}, ""), incus.ErrNotFound)
	c.wants(c.Client.PatchInstance(c.ctx, name, incus.InstancePatch{Devices: map[string]map[string]string{"none": {}}}, ""), incus.ErrInvalid)
}

func (c *contract) put() {
	name := c.instance()
	got, etag, err := c.Client.GetInstance(c.ctx, name)
	c.must(err)
	put := got.Put()
	put.Config = maps.Clone(put.Config)
	delete(put.Config, "user.contract")
	put.Config["user.put"] = "yes"
	put.Description = "replaced"
	c.must(c.done(c.Client.UpdateInstance(c.ctx, name, put, etag)))
	c.wants(c.done(c.Client.UpdateInstance(c.ctx, name, put, etag)), incus.ErrPrecondition)
	changed := c.get(name)
	_, left := changed.Config["user.contract"]
	same(c, "key that was left out is there", left, false)
	same(c, "new key", changed.Config["user.put"], "yes")
	same(c, "description", changed.Description, "replaced")
	c.must(c.done(c.Client.UpdateInstance(c.ctx, name, changed.Put(), "")))

	bare := changed.Put()
	bare.Config = map[string]string{"user.put": "bare"}
	c.wants(c.done(c.Client.UpdateInstance(c.ctx, name, bare, "")), incus.ErrOperation, incus.ErrInvalid)
	same(c, "key after a refused put", c.get(name).Config["user.put"], "yes")
	c.wants(c.done(c.Client.UpdateInstance(c.ctx, unique("no"), put, "")), incus.ErrNotFound)
}

func (c *contract) filters() {
	tag := unique("tag")
	mark := func(extra string) func(*incus.InstancesPost) {
		return func(post *incus.InstancesPost) {
			post.Config["user.tag"], post.Config["user.extra"] = tag, extra
		}
	}
	first, second := c.instance(mark("one")), c.instance(mark("two words"))
	c.instance()
	both := slices.Sorted(slices.Values([]string{first, second}))
	of := "config.user.tag eq " + tag
	for filter, want := range map[string][]string{
		of:                                both,
		"name eq " + first:                {first},
		"name eq " + first[:len(first)-1]: {},
		"name eq ^" + first + "$":         {first},
		"name eq ^(" + first + "|" + second + ")$":                         both,
		"name eq " + strings.ToUpper(first):                                {first},
		of + " and config.user.extra eq one":                               {first},
		of + " and config.user.extra ne one":                               {second},
		of + " and not config.user.extra eq one":                           {second},
		of + ` and config.user.extra eq "two words"`:                       {second},
		of + " and config.user.nosuch eq x":                                {},
		of + " and config.user.nosuch ne x":                                both,
		"config.user.nosuch eq x or name eq " + first:                      {first},
		of + " and status eq stopped and location eq none":                 both,
		"name eq " + first + " or config.user.extra eq o.e and name eq zz": {},
	} {
		got, err := c.Client.GetInstances(c.ctx, incus.InstancesFilter{Filter: filter, NoState: true})
		c.must(err)
		names := []string{}
		for _, one := range got {
			names = append(names, one.Name)
			same(c, "state without being asked for", one.State == nil, true)
		}
		slices.Sort(names)
		equal(c, "filter "+filter, names, want)
	}
	withState, err := c.Client.GetInstances(c.ctx, incus.InstancesFilter{Filter: "name eq " + first, AllProjects: true})
	c.must(err)
	same(c, "instances", len(withState), 1)
	if len(withState) == 1 && withState[0].State == nil {
		c.Error("no state in a list with state")
	}
	for _, wrong := range []string{"bogus", "name eq"} {
		_, err := c.Client.GetInstances(c.ctx, incus.InstancesFilter{Filter: wrong})
		c.wants(err, incus.ErrInvalid)
	}
	for _, wrong := range []string{"name foo bar", "nosuch eq x"} {
		if _, err := c.Client.GetInstances(c.ctx, incus.InstancesFilter{Filter: wrong}); err == nil {
			c.Errorf("filter %q was taken", wrong)
		}
	}
}
