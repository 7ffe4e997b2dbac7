package incustest

import (
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// volumeSnapshotNames lists the snapshots of a volume.
func (c *contract) volumeSnapshotNames(volume string) []string {
	c.Helper()
	snapshots, err := c.Client.GetStoragePoolVolumeSnapshots(c.ctx, c.Pool, volume)
	c.must(err)
	names := []string{}
	for _, snapshot := range snapshots {
		names = append(names, snapshot.Name)
	}
	slices.Sort(names)
	return names
}

func (c *contract) volumeSnapshots() {
	name := c.volume()
	instance := c.instance(c.with(name))
	snapshot := func(volume, name string) error {
		return c.done(c.Client.CreateStoragePoolVolumeSnapshot(c.ctx, c.Pool, volume, name))
	}
	c.set(instance, "start")
	c.fill(instance, name, "one")
	c.must(snapshot(name, "first")) // while it is used
	c.wants(snapshot(name, "first"), incus.ErrAlreadyExists)
	c.wants(snapshot(name, "with/slash"), incus.ErrInvalid)
	c.fill(instance, name, "two")
	c.must(snapshot(name, "second"))
	equal(c, "snapshots", c.volumeSnapshotNames(name), []string{"first", "second"})

	restore := func(volume, snapshot string) error {
		return c.Client.RestoreStoragePoolVolumeSnapshot(c.ctx, c.Pool, volume, snapshot)
	}
	c.wants(restore(name, "first"), incus.ErrInUse)
	c.holds(instance, name, "two")
	c.set(instance, "stop")
	c.must(c.Client.UpdateStoragePoolVolume(c.ctx, c.Pool, name, incus.StorageVolumePut{Description: "kept", Config: map[string]string{"user.kept": "1"}}, ""))
	c.must(restore(name, "first"))
	got := c.getVolume(name)
	same(c, "key after the restore", got.Config["user.kept"], "1")
	same(c, "description after the restore", got.Description, "kept")
	equal(c, "snapshots after the restore", c.volumeSnapshotNames(name), []string{"first", "second"})
	c.set(instance, "start")
	c.holds(instance, name, "one")
	c.set(instance, "stop")
	c.must(restore(name, "second")) // the later one
	c.set(instance, "start")
	c.holds(instance, name, "two")
	c.set(instance, "stop")

	remove := func(volume, snapshot string) error {
		return c.done(c.Client.DeleteStoragePoolVolumeSnapshot(c.ctx, c.Pool, volume, snapshot))
	}
	c.must(remove(name, "first"))
	c.wants(remove(name, "first"), incus.ErrNotFound)
	c.wants(restore(name, "first"), incus.ErrNotFound)
	equal(c, "snapshots at the end", c.volumeSnapshotNames(name), []string{"second"})
	c.set(instance, "start")
	c.holds(instance, name, "two")

	missing := unique("no")
	c.wants(snapshot(missing, "x"), incus.ErrNotFound)
	c.wants(restore(missing, "x"), incus.ErrNotFound)
	c.wants(remove(missing, "x"), incus.ErrNotFound)
	_, err := c.Client.GetStoragePoolVolumeSnapshots(c.ctx, c.Pool, missing)
	c.wants(err, incus.ErrNotFound)
}

func (c *contract) instanceSnapshots() {
	name := c.running()
	push := func(content string) {
		c.must(c.Client.CreateInstanceFile(c.ctx, name, "/root/file", incus.File{Content: strings.NewReader(content), Mode: 0o600}))
	}
	holds := func(want string) {
		c.Helper()
		content, _, err := c.Client.GetInstanceFile(c.ctx, name, "/root/file")
		c.must(err)
		same(c, "content", string(content), want)
	}
	names := func() []string {
		snapshots, err := c.Client.GetInstanceSnapshots(c.ctx, name)
		c.must(err)
		names := []string{}
		for _, snapshot := range snapshots {
			names = append(names, snapshot.Name)
			same(c, "key in the snapshot", snapshot.Config["user.contract"], "yes")
		}
		return names
	}
	push("one")
	c.must(c.done(c.Client.CreateInstanceSnapshot(c.ctx, name, "first")))
	c.wants(c.done(c.Client.CreateInstanceSnapshot(c.ctx, name, "first")), incus.ErrAlreadyExists, incus.ErrOperation)
	c.wants(c.done(c.Client.CreateInstanceSnapshot(c.ctx, name, "with/slash")), incus.ErrInvalid)
	equal(c, "snapshots", names(), []string{"first"})

	push("two")
	c.must(c.Client.PatchInstance(c.ctx, name, incus.InstancePatch{Config: map[string]string{"user.later": "1"}}, ""))
	c.must(c.done(c.Client.RestoreInstanceSnapshot(c.ctx, name, "first")))
	holds("one")
	got := c.get(name)
	same(c, "runs after the restore", got.Running(), true)
	same(c, "later key after the restore", got.Config["user.later"], "")
	c.set(name, "stop")
	push("three")
	c.must(c.done(c.Client.RestoreInstanceSnapshot(c.ctx, name, "first")))
	holds("one")
	same(c, "runs after the restore", c.get(name).Running(), false)
	c.wants(c.done(c.Client.RestoreInstanceSnapshot(c.ctx, name, "nosuch")), incus.ErrOperation)

	c.must(c.done(c.Client.DeleteInstanceSnapshot(c.ctx, name, "first")))
	c.wants(c.done(c.Client.DeleteInstanceSnapshot(c.ctx, name, "first")), incus.ErrNotFound)
	equal(c, "snapshots at the end", names(), []string{})
	missing := unique("no")
	c.wants(c.done(c.Client.CreateInstanceSnapshot(c.ctx, missing, "x")), incus.ErrNotFound)
	c.wants(c.done(c.Client.RestoreInstanceSnapshot(c.ctx, missing, "x")), incus.ErrNotFound)
	_, err := c.Client.GetInstanceSnapshots(c.ctx, missing)
	c.wants(err, incus.ErrNotFound)
}

func (c *contract) rebuild() {
	volume := c.volume()
	name := c.instance(c.with(volume), func(post *incus.InstancesPost) { post.Description = "kept" })
	c.set(name, "start")
	c.fill(name, volume, "one")
	c.must(c.Client.CreateInstanceFile(c.ctx, name, "/root/file", incus.File{Content: strings.NewReader("x"), Mode: 0o600}))
	card := c.get(name).Config["volatile.eth0.hwaddr"]
	source := incus.InstanceSource{Type: "image", Alias: c.Image}
	c.wants(c.done(c.Client.RebuildInstance(c.ctx, name, source)), incus.ErrInvalid)
	c.set(name, "stop")

	c.must(c.done(c.Client.CreateInstanceSnapshot(c.ctx, name, "first")))
	c.wants(c.done(c.Client.RebuildInstance(c.ctx, name, source)), incus.ErrInvalid, incus.ErrOperation)
	c.must(c.done(c.Client.DeleteInstanceSnapshot(c.ctx, name, "first")))
	c.wants(c.done(c.Client.RebuildInstance(c.ctx, name, incus.InstanceSource{Type: "image", Alias: unique("no")})), incus.ErrInvalid, incus.ErrOperation)

	c.must(c.done(c.Client.RebuildInstance(c.ctx, name, source)))
	got := c.get(name)
	same(c, "own key", got.Config["user.contract"], "yes")
	same(c, "description", got.Description, "kept")
	same(c, "MAC address", got.Config["volatile.eth0.hwaddr"], card)
	same(c, "volume", got.Devices["data"]["source"], volume)
	same(c, "has a base image", got.Config["volatile.base_image"] != "", true)
	c.set(name, "start")
	_, _, err := c.Client.GetInstanceFile(c.ctx, name, "/root/file")
	c.wants(err, incus.ErrNotFound)
	c.holds(name, volume, "one")
	c.wants(c.done(c.Client.RebuildInstance(c.ctx, unique("no"), source)), incus.ErrNotFound)
}
