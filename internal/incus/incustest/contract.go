package incustest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Target is a server that the contract is checked on. It is a standalone one.
type Target struct {
	Client  *incus.Client // its project may hold other instances
	Image   string        // alias of a local image with sh, cat and sleep that gets its address by DHCP
	Network string        // a managed bridge with an IPv4 subnet
	Pool    string
	Other   string // another pool, of driver dir
	// Content and SetContent reach into a volume from outside. Without them an instance that runs with it does.
	Content    func(pool, volume string) (string, bool)
	SetContent func(pool, volume, content string) error
}

// RunContract checks that a server answers as this package's in-memory one does. It runs against both. connect makes a
// client whose project is the test's own, and is called once for each part.
func RunContract(t *testing.T, connect func(t *testing.T) Target) {
	for _, part := range []struct {
		name  string
		check func(*contract)
	}{
		{"server", (*contract).server},
		{"projects", (*contract).projects},
		{"life of an instance", (*contract).life},
		{"create and start", (*contract).createAndStart},
		{"refused creates", (*contract).refusedCreates},
		{"patch", (*contract).patch},
		{"put", (*contract).put},
		{"lists and filters", (*contract).filters},
		{"exec", (*contract).exec},
		{"exec that is cancelled", (*contract).execCancelled},
		{"exec as a connection", (*contract).execConnection},
		{"exec as a connection that ends", (*contract).execConnectionEnds},
		{"files", (*contract).files},
		{"directories and links", (*contract).directories},
		{"images", (*contract).images},
		{"failed pulls", (*contract).failedPulls},
		{"networks and pools", (*contract).networks},
		{"forwards", (*contract).forwards},
		{"refused forwards", (*contract).refusedForwards},
		{"volumes", (*contract).volumes},
		{"sizes of volumes", (*contract).volumeSizes},
		{"volumes in use", (*contract).volumesInUse},
		{"snapshots of volumes", (*contract).volumeSnapshots},
		{"copies of volumes", (*contract).volumeCopies},
		{"copies between pools", (*contract).copiesBetweenPools},
		{"backups of volumes", (*contract).volumeBackups},
		{"refused volume devices", (*contract).refusedDevices},
		{"snapshots of instances", (*contract).instanceSnapshots},
		{"rebuild", (*contract).rebuild},
		{"taken addresses", (*contract).takenAddresses},
		{"profiles", (*contract).profiles},
		{"cluster", (*contract).cluster},
		{"operations", (*contract).operations},
	} {
		t.Run(part.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			part.check(&contract{T: t, Target: connect(t), ctx: ctx})
		})
	}
}

// contract is one part of the contract on one server.
type contract struct {
	*testing.T
	Target
	ctx context.Context
}

// must ends the part on an error.
func (c *contract) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("unexpected error: %v", err)
	}
}

// wants checks that an error is of every one of the kinds.
func (c *contract) wants(err error, kinds ...error) {
	c.Helper()
	if err == nil {
		c.Errorf("no error, want %v", kinds)
		return
	}
	for _, kind := range kinds {
		if !errors.Is(err, kind) {
			c.Errorf("error %q is not %q", err, kind)
		}
	}
}

// wantsNot checks that an error is not of a kind.
func (c *contract) wantsNot(err, kind error) {
	c.Helper()
	if errors.Is(err, kind) {
		c.Errorf("error %q is %q", err, kind)
	}
}

// done waits for an operation.
func (c *contract) done(op incus.Operation, err error) error {
	if err != nil {
		return err
	}
	return op.Wait(c.ctx)
}

// unique makes a name that nothing has.
func unique(prefix string) string {
	var raw [4]byte
	_, _ = rand.Read(raw[:]) // never fails
	return prefix + "-" + hex.EncodeToString(raw[:])
}

// request asks for an instance with devices of its own, so that no profile matters.
func (c *contract) request(name string) incus.InstancesPost {
	return incus.InstancesPost{
		Name:   name,
		Source: incus.InstanceSource{Type: "image", Alias: c.Image},
		InstancePut: incus.InstancePut{
			Config:   map[string]string{"user.contract": "yes"},
			Profiles: []string{},
			Devices: map[string]map[string]string{
				"root": {"type": "disk", "path": "/", "pool": c.Pool},
				"eth0": {"type": "nic", "name": "eth0", "network": c.Network},
			},
		},
	}
}

// instance makes a stopped instance that is gone after the part.
func (c *contract) instance(change ...func(*incus.InstancesPost)) string {
	c.Helper()
	post := c.request(unique("ct"))
	for _, one := range change {
		one(&post)
	}
	c.tidy(post.Name)
	c.must(c.done(c.Client.CreateInstance(c.ctx, post)))
	return post.Name
}

// running makes a running instance.
func (c *contract) running() string {
	c.Helper()
	return c.instance(func(post *incus.InstancesPost) { post.Start = true })
}

// tidy removes an instance after the part, where it is.
func (c *contract) tidy(name string) {
	c.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if op, err := c.Client.UpdateInstanceState(ctx, name, incus.InstanceStatePut{Action: "stop", Force: true}); err == nil {
			_ = op.Wait(ctx) // it may be stopped already
		}
		op, err := c.Client.DeleteInstance(ctx, name)
		if err == nil {
			err = op.Wait(ctx)
		}
		if err != nil && !errors.Is(err, incus.ErrNotFound) {
			c.Errorf("remove instance %s: %v", name, err)
		}
	})
}

// get reads an instance that must exist.
func (c *contract) get(name string) *incus.Instance {
	c.Helper()
	got, _, err := c.Client.GetInstance(c.ctx, name)
	c.must(err)
	return got
}

// addressOf waits until an instance has an IPv4 address on its card.
func (c *contract) addressOf(name string) netip.Addr {
	c.Helper()
	for {
		state, err := c.Client.GetInstanceState(c.ctx, name)
		c.must(err)
		for _, address := range state.Network["eth0"].Addresses {
			if address.Family == "inet" && address.Scope == "global" {
				return netip.MustParseAddr(address.Address)
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-c.ctx.Done():
			c.Fatalf("instance %s has no address: %+v", name, state)
		}
	}
}

// subnet is that of the target's network.
func (c *contract) subnet() netip.Prefix {
	c.Helper()
	network, err := c.Client.GetNetwork(c.ctx, c.Network)
	c.must(err)
	prefix, err := netip.ParsePrefix(network.Config["ipv4.address"])
	c.must(err)
	return prefix
}

// equal compares two lists.
func equal[T comparable](c *contract, what string, got, want []T) {
	c.Helper()
	if !slices.Equal(got, want) {
		c.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// same compares two values.
func same[T comparable](c *contract, what string, got, want T) {
	c.Helper()
	if got != want {
		c.Errorf("%s: got %v, want %v", what, got, want)
	}
}
