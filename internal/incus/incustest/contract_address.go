package incustest

import (
	"maps"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// card changes the network card of an instance to be.
func card(keys map[string]string) func(*incus.InstancesPost) {
	return func(post *incus.InstancesPost) { maps.Copy(post.Devices["eth0"], keys) }
}

func (c *contract) takenAddresses() {
	const mac = "10:66:6a:c0:47:ac"
	address := c.subnet().Masked().Addr()
	for range 37 {
		address = address.Next()
	}
	static := map[string]string{"ipv4.address": address.String(), "hwaddr": mac}
	first := c.instance(card(static))
	c.set(first, "start")
	same(c, "address", c.addressOf(first), address)
	state, err := c.Client.GetInstanceState(c.ctx, first)
	c.must(err)
	same(c, "MAC address", state.Network["eth0"].Hwaddr, mac)

	// A create looks at nobody else's addresses, a start does, and so does every change of a device.
	start := func(name string) error {
		return c.done(c.Client.UpdateInstanceState(c.ctx, name, incus.InstanceStatePut{Action: "start"}))
	}
	for key, value := range static {
		twin := c.instance(card(map[string]string{key: value}))
		c.wants(start(twin), incus.ErrOperation, incus.ErrAddressTaken)
		c.wantsNot(start(twin), incus.ErrAlreadyExists)
		c.set(first, "stop")
		c.wants(start(first), incus.ErrAddressTaken) // neither of the two starts any more
		c.wants(start(twin), incus.ErrAddressTaken)
		c.must(c.done(c.Client.DeleteInstance(c.ctx, twin)))
		c.set(first, "start")

		plain := c.instance()
		put := c.get(plain).Put()
		put.Devices["eth0"][key] = value
		c.wants(c.done(c.Client.UpdateInstance(c.ctx, plain, put, "")), incus.ErrOperation, incus.ErrAddressTaken)
		c.wants(c.Client.PatchInstance(c.ctx, plain, incus.InstancePatch{Devices: put.Devices}, ""), incus.ErrAddressTaken)
		c.set(plain, "start")
		c.set(plain, "stop")
		c.must(c.Client.PatchInstance(c.ctx, first, incus.InstancePatch{Config: map[string]string{"user.a": "1"}}, ""))
	}
	post := c.request(unique("ct"))
	card(static)(&post)
	post.Start = true
	c.tidy(post.Name)
	c.wants(c.done(c.Client.CreateInstance(c.ctx, post)), incus.ErrOperation, incus.ErrAddressTaken)
	same(c, "status after a failed start", c.get(post.Name).Status, incus.StatusStopped)
	c.must(c.done(c.Client.DeleteInstance(c.ctx, post.Name)))

	// Freed with the instance, or by taking it from the device.
	c.set(first, "stop")
	put := c.get(first).Put()
	delete(put.Devices["eth0"], "ipv4.address")
	put.Devices["eth0"]["hwaddr"] = "10:66:6a:c0:47:ad"
	c.must(c.done(c.Client.UpdateInstance(c.ctx, first, put, "")))
	heir := c.instance(card(static))
	c.set(heir, "start")
	same(c, "address of the heir", c.addressOf(heir), address)
	c.wants(c.Client.PatchInstance(c.ctx, first, incus.InstancePatch{Devices: map[string]map[string]string{
		"eth0": {"type": "nic", "name": "eth0", "network": c.Network, "ipv4.address": address.String()},
	}}, ""), incus.ErrAddressTaken)
}
