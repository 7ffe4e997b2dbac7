package incustest

import (
	"archive/tar"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// in is the contract with another pool.
func (c *contract) in(pool string) *contract {
	copied := *c
	copied.Pool = pool
	return &copied
}

func (c *contract) copiesBetweenPools() {
	there := c.in(c.Other)
	name := c.volume(func(v *incus.StorageVolume) { v.Config["size"] = "20MiB" })
	instance := c.instance(c.with(name))
	c.set(instance, "start")
	c.fill(instance, name, "one")
	c.set(instance, "stop")
	c.must(c.done(c.Client.CreateStoragePoolVolumeSnapshot(c.ctx, c.Pool, name, "before")))
	config := maps.Clone(c.getVolume(name).Config)
	config["user.own"] = "1"

	// Of the same name, in a pool of another driver, and from there back under another one.
	there.tidyVolume(c.Client, name)
	c.listed(c.Client.CopyStoragePoolVolume(c.ctx, c.Other, incus.StorageVolumeSource{Pool: c.Pool, Name: name}, incus.StorageVolume{Name: name, Config: config}))
	got := there.getVolume(name)
	same(c, "own key of the copy", got.Config["user.own"], "1")
	same(c, "size of the copy", got.Config["size"], "20MiB")
	same(c, "the copy knows whose files are whose", got.Config["volatile.idmap.last"], c.getVolume(name).Config["volatile.idmap.last"])
	equal(c, "snapshots of the copy", there.volumeSnapshotNames(name), []string{"before"})
	same(c, "what the copy takes", there.usage(name), -1)
	same(c, "users of the copy", len(got.UsedBy), 0)
	back := unique("vol")
	c.tidyVolume(c.Client, back)
	c.must(c.done(c.Client.CopyStoragePoolVolume(c.ctx, c.Pool, incus.StorageVolumeSource{Pool: c.Other, Name: name, VolumeOnly: true}, incus.StorageVolume{Name: back})))
	same(c, "own key of the copy back", c.getVolume(back).Config["user.own"], "1")

	reader, last := there.instance(there.with(name)), c.instance(c.with(back))
	c.set(reader, "start")
	there.holds(reader, name, "one")
	c.set(last, "start")
	c.holds(last, back, "one")
	c.wants(c.Client.DeleteStoragePoolVolume(c.ctx, c.Other, name), incus.ErrInUse)
}

// listed checks that the server lists the task of a copy, and waits for its end.
func (c *contract) listed(op incus.Operation, err error) {
	c.Helper()
	c.must(err)
	list, err := c.Client.GetOperations(c.ctx)
	c.must(err)
	at := slices.IndexFunc(list, func(o incus.OperationInfo) bool { return o.ID == op.ID() })
	if at < 0 {
		c.Fatalf("operation %s is not among %v", op.ID(), list)
	}
	same(c, "is the copy of a volume: "+list[at].Description, list[at].CopiesVolume(), true)
	c.must(op.Wait(c.ctx))
	list, err = c.Client.GetOperations(c.ctx)
	c.must(err)
	same(c, "runs after its end", slices.ContainsFunc(list, func(o incus.OperationInfo) bool { return o.ID == op.ID() && o.Running() }), false)
}

func (c *contract) volumeBackups() {
	name := c.volume()
	instance := c.instance(c.with(name))
	c.set(instance, "start")
	c.fill(instance, name, "one")
	expires := time.Now().Add(time.Hour)
	c.must(c.done(c.Client.CreateStoragePoolVolumeBackup(c.ctx, c.Pool, name, "first", expires)))
	c.wants(c.done(c.Client.CreateStoragePoolVolumeBackup(c.ctx, c.Pool, name, "first", expires)), incus.ErrAlreadyExists)
	c.fill(instance, name, "two")
	content := ""
	c.must(c.Client.ReadStoragePoolVolumeBackup(c.ctx, c.Pool, name, "first", func(archive io.Reader) error {
		for files := tar.NewReader(archive); ; {
			header, err := files.Next()
			if err != nil {
				return ignoreEOF(err)
			}
			if header.Name == "backup/volume/content" {
				text, err := io.ReadAll(files)
				if err != nil {
					return err
				}
				content = strings.TrimSpace(string(text))
			}
		}
	}))
	same(c, "content of the archive", content, "one")
	c.must(c.done(c.Client.DeleteStoragePoolVolumeBackup(c.ctx, c.Pool, name, "first")))
	c.wants(c.done(c.Client.DeleteStoragePoolVolumeBackup(c.ctx, c.Pool, name, "first")), incus.ErrNotFound)
	nothing := func(io.Reader) error { return nil }
	c.wants(c.Client.ReadStoragePoolVolumeBackup(c.ctx, c.Pool, name, "first", nothing), incus.ErrNotFound)
	c.wants(c.done(c.Client.CreateStoragePoolVolumeBackup(c.ctx, c.Pool, unique("no"), "first", expires)), incus.ErrNotFound)
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
