package incustest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// ClusterTarget is a cluster that the contract is checked on.
type ClusterTarget struct {
	Target
	Members []string // at least three, the first of which answers the client
}

// RunClusterContract checks on a cluster what RunContract can't check on one server.
func RunClusterContract(t *testing.T, connect func(t *testing.T) ClusterTarget) {
	for _, part := range []struct {
		name  string
		check func(*contract, []string)
	}{
		{"volumes of members", (*contract).volumesOfMembers},
		{"copies between members", (*contract).copiesBetweenMembers},
		{"backups on members", func(c *contract, members []string) { c.on(members[1]).volumeBackups() }},
		{"instances and volumes of members", (*contract).instancesOfMembers},
	} {
		t.Run(part.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			target := connect(t)
			part.check(&contract{T: t, Target: target.Target, ctx: ctx}, target.Members)
		})
	}
}

// on is the contract with a client whose target is one member.
func (c *contract) on(member string) *contract {
	copied := *c
	copied.Client = c.Client.UseTarget(member)
	return &copied
}

func (c *contract) volumesOfMembers(members []string) {
	second, third := c.on(members[1]), c.on(members[2])
	c.wants(c.Client.CreateStoragePoolVolume(c.ctx, c.Pool, incus.StorageVolume{Name: unique("vol")}), incus.ErrInvalid)
	_, err := c.Client.CopyStoragePoolVolume(c.ctx, c.Pool, incus.StorageVolumeSource{Pool: c.Pool, Name: "any"}, incus.StorageVolume{Name: unique("vol")})
	c.wants(err, incus.ErrInvalid)
	for _, wrong := range []string{"elsewhere", "@default"} {
		c.wants(c.on(wrong).Client.CreateStoragePoolVolume(c.ctx, c.Pool, incus.StorageVolume{Name: unique("vol")}), incus.ErrInvalid)
	}

	name := second.volume()
	same(c, "location", second.getVolume(name).Location, members[1])
	same(c, "location without asking for it", c.getVolume(name).Location, members[1])
	same(c, "volume by its location", c.locatedVolume(c.getVolume(name)).Location, members[1])
	_, _, err = third.Client.GetStoragePoolVolume(c.ctx, c.Pool, name)
	c.wants(err, incus.ErrNotFound)
	_, _, err = c.on("elsewhere").Client.GetStoragePoolVolume(c.ctx, c.Pool, name)
	c.wants(err, incus.ErrInvalid)
	c.wantsNot(err, incus.ErrNotFound)
	c.wants(second.Client.CreateStoragePoolVolume(c.ctx, c.Pool, incus.StorageVolume{Name: name}), incus.ErrAlreadyExists)
	third.volume(func(v *incus.StorageVolume) { v.Name = name }) // another volume

	_, _, err = c.Client.GetStoragePoolVolume(c.ctx, c.Pool, name)
	c.wants(err, incus.ErrInvalid)
	c.wantsNot(err, incus.ErrNotFound)
	locations := func(client *incus.Client) []string {
		list, err := client.GetStoragePoolVolumes(c.ctx, c.Pool, incus.StorageVolumesFilter{Filter: "name eq " + name})
		c.must(err)
		out := []string{}
		for _, v := range list {
			out = append(out, v.Location)
		}
		slices.Sort(out)
		return out
	}
	equal(c, "locations", locations(c.Client), slices.Sorted(slices.Values(members[1:3])))
	equal(c, "locations on one member", locations(third.Client), members[2:3])

	c.must(second.done(second.Client.CreateStoragePoolVolumeSnapshot(c.ctx, c.Pool, name, "first")))
	equal(c, "snapshots", second.volumeSnapshotNames(name), []string{"first"})
	equal(c, "snapshots on the other member", third.volumeSnapshotNames(name), []string{})
	c.must(second.Client.RestoreStoragePoolVolumeSnapshot(c.ctx, c.Pool, name, "first"))
	c.must(second.done(second.Client.DeleteStoragePoolVolumeSnapshot(c.ctx, c.Pool, name, "first")))
	c.must(second.Client.UpdateStoragePoolVolume(c.ctx, c.Pool, name, incus.StorageVolumePut{Config: map[string]string{"user.a": "1"}}, ""))
	same(c, "key", second.getVolume(name).Config["user.a"], "1")
	same(c, "key on the other member", third.getVolume(name).Config["user.a"], "")
	renamed := unique("vol")
	c.tidyVolume(second.Client, renamed)
	c.must(second.Client.RenameStoragePoolVolume(c.ctx, c.Pool, name, renamed))
	equal(c, "locations after a rename", locations(c.Client), members[2:3])
	c.must(third.Client.DeleteStoragePoolVolume(c.ctx, c.Pool, name))
	c.wants(third.Client.DeleteStoragePoolVolume(c.ctx, c.Pool, name), incus.ErrNotFound)
}

func (c *contract) copiesBetweenMembers(members []string) {
	second, third := c.on(members[1]), c.on(members[2])
	name := second.volume(func(v *incus.StorageVolume) { v.Description = "the first" })
	writer := second.instance(c.with(name))
	c.set(writer, "start")
	c.fill(writer, name, "one")
	c.set(writer, "stop")
	c.must(c.done(second.Client.CreateStoragePoolVolumeSnapshot(c.ctx, c.Pool, name, "first")))
	source := incus.StorageVolumeSource{Pool: c.Pool, Name: name, Location: members[1]}

	copied := unique("vol")
	c.tidyVolume(third.Client, copied)
	c.listed(third.Client.CopyStoragePoolVolume(c.ctx, c.Pool, source, incus.StorageVolume{Name: copied}))
	got := third.getVolume(copied)
	same(c, "location of the copy", got.Location, members[2])
	same(c, "key of the copy", got.Config["user.contract"], "yes")
	same(c, "description of the copy", got.Description, "the first")
	equal(c, "snapshots of the copy", third.volumeSnapshotNames(copied), []string{"first"})
	reader := third.instance(c.with(copied))
	c.set(reader, "start")
	c.holds(reader, copied, "one")
	c.wants(c.done(third.Client.CopyStoragePoolVolume(c.ctx, c.Pool, source, incus.StorageVolume{Name: copied})), incus.ErrAlreadyExists)

	beside := unique("vol")
	c.tidyVolume(second.Client, beside)
	source.VolumeOnly = true
	c.must(c.done(second.Client.CopyStoragePoolVolume(c.ctx, c.Pool, source, incus.StorageVolume{Name: beside})))
	same(c, "location of a copy beside", second.getVolume(beside).Location, members[1])
	equal(c, "snapshots of a copy without them", second.volumeSnapshotNames(beside), []string{})
	source.Name = unique("no")
	c.wants(c.done(third.Client.CopyStoragePoolVolume(c.ctx, c.Pool, source, incus.StorageVolume{Name: unique("vol")})), incus.ErrNotFound)
}

func (c *contract) instancesOfMembers(members []string) {
	second, third := c.on(members[1]), c.on(members[2])
	name := second.volume()
	post := c.request(unique("ct"))
	c.with(name)(&post)
	c.wants(c.done(third.Client.CreateInstance(c.ctx, post)), incus.ErrInvalid)
	second.instance(c.with(name))
	c.wants(second.Client.DeleteStoragePoolVolume(c.ctx, c.Pool, name), incus.ErrInUse)

	// Every member has its own bridge, and looks at its own instances only.
	taken := card(map[string]string{"hwaddr": "10:66:6a:c0:47:ae"})
	first, twin := second.instance(taken), third.instance(taken)
	c.set(first, "start")
	c.set(twin, "start")
}
