package incustest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// dataPath is where the contract's instances have their volume.
const dataPath = "/data"

// volume makes a volume that is gone after the part.
func (c *contract) volume(change ...func(*incus.StorageVolume)) string {
	c.Helper()
	v := incus.StorageVolume{Name: unique("vol"), Config: map[string]string{"user.contract": "yes"}}
	for _, one := range change {
		one(&v)
	}
	c.tidyVolume(c.Client, v.Name)
	c.must(c.Client.CreateStoragePoolVolume(c.ctx, c.Pool, v))
	return v.Name
}

// tidyVolume removes a volume after the part, where it is.
func (c *contract) tidyVolume(client *incus.Client, name string) {
	c.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := client.DeleteStoragePoolVolume(ctx, c.Pool, name); err != nil && !errors.Is(err, incus.ErrNotFound) {
			c.Errorf("remove volume %s: %v", name, err)
		}
	})
}

// with gives an instance a volume.
func (c *contract) with(volume string) func(*incus.InstancesPost) {
	return func(post *incus.InstancesPost) {
		post.Devices["data"] = map[string]string{"type": "disk", "pool": c.Pool, "source": volume, "path": dataPath}
	}
}

// getVolume reads a volume that must exist.
func (c *contract) getVolume(name string) *incus.StorageVolume {
	c.Helper()
	v, _, err := c.Client.GetStoragePoolVolume(c.ctx, c.Pool, name)
	c.must(err)
	return v
}

// set starts or stops an instance.
func (c *contract) set(name, action string) {
	c.Helper()
	c.must(c.done(c.Client.UpdateInstanceState(c.ctx, name, incus.InstanceStatePut{Action: action, Force: action == "stop"})))
}

// fill writes to a volume that a running instance has at dataPath.
func (c *contract) fill(instance, volume, content string) {
	c.Helper()
	if c.SetContent != nil {
		c.must(c.SetContent(c.Pool, volume, content))
		return
	}
	result, err := c.Client.ExecInstance(c.ctx, instance, incus.ExecPost{Command: []string{"sh", "-c", fmt.Sprintf("echo %s >%s/content && chown 7:8 %s/content", content, dataPath, dataPath)}})
	c.must(err)
	same(c, "exit code of the write", result.ExitCode, 0)
}

// holds checks what is in a volume that a running instance has at dataPath, and whose it is.
func (c *contract) holds(instance, volume, want string) {
	c.Helper()
	if c.Content != nil {
		got, ok := c.Content(c.Pool, volume)
		same(c, "volume has content", ok, true)
		same(c, "content", got, want)
		return
	}
	result, err := c.Client.ExecInstance(c.ctx, instance, incus.ExecPost{Command: []string{"sh", "-c", "ls -n " + dataPath + "/content | awk '{ print $3, $4 }'; cat " + dataPath + "/content"}})
	c.must(err)
	same(c, "content", string(result.Stdout), "7 8\n"+want+"\n")
}

func (c *contract) volumes() {
	tag := unique("tag")
	name := c.volume(func(v *incus.StorageVolume) {
		v.Description, v.Config = "made by the contract", map[string]string{"user.tag": tag, "size": "10MiB"}
	})
	other := c.volume()
	got, etag, err := c.Client.GetStoragePoolVolume(c.ctx, c.Pool, name)
	c.must(err)
	same(c, "name", got.Name, name)
	same(c, "type", got.Type, "custom")
	same(c, "content type", got.ContentType, incus.ContentFilesystem)
	same(c, "description", got.Description, "made by the contract")
	same(c, "location", got.Location, "none")
	same(c, "size", got.Config["size"], "10MiB")
	same(c, "users", len(got.UsedBy), 0)
	same(c, "volume by its location", c.locatedVolume(got).Name, name)

	c.must(c.done(c.Client.CreateStoragePoolVolumeSnapshot(c.ctx, c.Pool, name, "listed")))
	for filter, want := range map[string][]string{
		"":                          slices.Sorted(slices.Values([]string{name, other})),
		"config.user.tag eq " + tag: {name},
		"name eq " + other:          {other},
		"config.user.tag eq no":     {},
	} {
		list, err := c.Client.GetStoragePoolVolumes(c.ctx, c.Pool, incus.StorageVolumesFilter{Filter: filter})
		c.must(err)
		names := []string{}
		for _, v := range list {
			if v.Name == name || v.Name == other || strings.HasPrefix(v.Name, name) {
				names = append(names, v.Name)
			}
		}
		slices.Sort(names)
		equal(c, "volumes with the filter "+filter, names, want)
	}
	_, err = c.Client.GetStoragePoolVolumes(c.ctx, c.Pool, incus.StorageVolumesFilter{Filter: "bogus"})
	c.wants(err, incus.ErrInvalid)

	put := got.Put()
	put.Config = map[string]string{"user.tag": tag, "user.b": "2"}
	put.Description = "changed"
	c.must(c.Client.UpdateStoragePoolVolume(c.ctx, c.Pool, name, put, etag))
	c.wants(c.Client.UpdateStoragePoolVolume(c.ctx, c.Pool, name, put, etag), incus.ErrPrecondition)
	got = c.getVolume(name)
	_, left := got.Config["size"]
	same(c, "key that was left out is there", left, false)
	same(c, "new key", got.Config["user.b"], "2")
	same(c, "description", got.Description, "changed")

	c.wants(c.Client.CreateStoragePoolVolume(c.ctx, c.Pool, incus.StorageVolume{Name: name}), incus.ErrAlreadyExists)
	c.wants(c.Client.RenameStoragePoolVolume(c.ctx, c.Pool, name, other), incus.ErrAlreadyExists)
	c.wants(c.Client.RenameStoragePoolVolume(c.ctx, c.Pool, name, "with/slash"), incus.ErrInvalid)
	renamed := unique("vol")
	c.tidyVolume(c.Client, renamed)
	c.must(c.Client.RenameStoragePoolVolume(c.ctx, c.Pool, name, renamed))
	same(c, "key after the rename", c.getVolume(renamed).Config["user.tag"], tag)
	c.must(c.Client.DeleteStoragePoolVolume(c.ctx, c.Pool, renamed)) // with its snapshot

	_, _, err = c.Client.GetStoragePoolVolume(c.ctx, c.Pool, name)
	c.wants(err, incus.ErrNotFound)
	c.wants(c.Client.UpdateStoragePoolVolume(c.ctx, c.Pool, name, put, ""), incus.ErrNotFound)
	c.wants(c.Client.RenameStoragePoolVolume(c.ctx, c.Pool, name, unique("vol")), incus.ErrNotFound)
	c.wants(c.Client.DeleteStoragePoolVolume(c.ctx, c.Pool, name), incus.ErrNotFound)
	_, err = c.Client.GetStoragePoolVolumes(c.ctx, "nosuch", incus.StorageVolumesFilter{})
	c.wants(err, incus.ErrNotFound)
	c.wants(c.Client.CreateStoragePoolVolume(c.ctx, "nosuch", incus.StorageVolume{Name: unique("vol")}), incus.ErrNotFound)

	elsewhere := c.Client.UseTarget("elsewhere")
	c.wants(elsewhere.CreateStoragePoolVolume(c.ctx, c.Pool, incus.StorageVolume{Name: unique("vol")}), incus.ErrInvalid)
	_, _, err = elsewhere.GetStoragePoolVolume(c.ctx, c.Pool, other)
	c.wants(err, incus.ErrInvalid)
	c.wantsNot(err, incus.ErrNotFound) // it is not the volume that is missing
}

// locatedVolume reads a volume where it says that it is.
func (c *contract) locatedVolume(v *incus.StorageVolume) *incus.StorageVolume {
	c.Helper()
	got, _, err := c.Client.UseTarget(v.Location).GetStoragePoolVolume(c.ctx, c.Pool, v.Name)
	c.must(err)
	return got
}

func (c *contract) volumeSizes() {
	size := func(size, content string) func(*incus.StorageVolume) {
		return func(v *incus.StorageVolume) { v.ContentType, v.Config = content, map[string]string{"size": size} }
	}
	resize := func(name, size string) error {
		return c.Client.UpdateStoragePoolVolume(c.ctx, c.Pool, name, incus.StorageVolumePut{Config: map[string]string{"size": size}}, "")
	}
	files := c.volume(size("10MiB", incus.ContentFilesystem))
	c.must(resize(files, "20MiB"))
	same(c, "size", c.getVolume(files).Config["size"], "20MiB")
	c.must(resize(files, "15MiB")) // nothing is in it
	c.wants(resize(files, "lots"), incus.ErrInvalid)
	same(c, "size after a refused change", c.getVolume(files).Config["size"], "15MiB")

	block := c.volume(size("10MiB", incus.ContentBlock))
	same(c, "content type", c.getVolume(block).ContentType, incus.ContentBlock)
	c.must(resize(block, "20MiB"))
	c.wants(resize(block, "10MiB"), incus.ErrInvalid)

	for what, v := range map[string]incus.StorageVolume{
		"size":         {Name: unique("vol"), Config: map[string]string{"size": "lots"}},
		"key":          {Name: unique("vol"), Config: map[string]string{"nosuch": "1"}},
		"content type": {Name: unique("vol"), ContentType: "odd"},
		"name":         {Name: "with/slash"},
		"no name":      {},
	} {
		if err := c.Client.CreateStoragePoolVolume(c.ctx, c.Pool, v); !errors.Is(err, incus.ErrInvalid) {
			c.Errorf("wrong %s: got %v, want %v", what, err, incus.ErrInvalid)
			c.tidyVolume(c.Client, v.Name)
		}
	}
}

func (c *contract) volumesInUse() {
	name := c.volume()
	first, second := c.instance(c.with(name)), c.instance(c.with(name))
	users := c.getVolume(name).UsedBy
	same(c, "users", len(users), 2)
	for _, instance := range []string{first, second} {
		same(c, "is a user: "+instance, slices.ContainsFunc(users, func(url string) bool { return strings.HasPrefix(url+"?", "/1.0/instances/"+instance+"?") }), true)
	}
	c.wants(c.Client.DeleteStoragePoolVolume(c.ctx, c.Pool, name), incus.ErrInUse)

	moved := unique("vol")
	c.tidyVolume(c.Client, moved)
	c.must(c.Client.RenameStoragePoolVolume(c.ctx, c.Pool, name, moved))
	same(c, "source after the rename", c.get(first).Devices["data"]["source"], moved)

	c.set(first, "start")
	c.set(second, "start") // at the same time
	c.fill(first, moved, "one")
	c.holds(second, moved, "one")
	c.wants(c.Client.RenameStoragePoolVolume(c.ctx, c.Pool, moved, name), incus.ErrInUse)
	c.wants(c.Client.DeleteStoragePoolVolume(c.ctx, c.Pool, moved), incus.ErrInUse)
	c.must(c.Client.UpdateStoragePoolVolume(c.ctx, c.Pool, moved, incus.StorageVolumePut{Config: map[string]string{"size": "30MiB"}}, ""))
	same(c, "the map of owners is kept", c.getVolume(moved).Config["volatile.idmap.last"] != "", true)
	c.set(first, "stop")
	c.set(second, "stop")
	c.set(first, "start")
	c.holds(first, moved, "one")

	c.must(c.done(c.Client.DeleteInstance(c.ctx, second)))
	got := c.get(first)
	put := got.Put()
	delete(put.Devices, "data")
	c.must(c.done(c.Client.UpdateInstance(c.ctx, first, put, "")))
	same(c, "users at the end", len(c.getVolume(moved).UsedBy), 0)
	c.must(c.Client.DeleteStoragePoolVolume(c.ctx, c.Pool, moved))

	profile := unique("ct")
	c.Cleanup(func() { _ = c.Client.DeleteProfile(context.Background(), profile) })
	inProfile := c.volume()
	c.must(c.Client.CreateProfile(c.ctx, incus.Profile{Name: profile, Devices: map[string]map[string]string{
		"data": {"type": "disk", "pool": c.Pool, "source": inProfile, "path": dataPath},
	}}))
	same(c, "users with a profile", len(c.getVolume(inProfile).UsedBy), 1)
	c.wants(c.Client.DeleteStoragePoolVolume(c.ctx, c.Pool, inProfile), incus.ErrInUse)
	c.must(c.Client.DeleteProfile(c.ctx, profile))
}

func (c *contract) refusedDevices() {
	name, block := c.volume(), c.volume(func(v *incus.StorageVolume) { v.ContentType = incus.ContentBlock })
	devices := map[string]map[string]string{
		"volume":  {"type": "disk", "pool": c.Pool, "source": unique("no"), "path": dataPath},
		"pool":    {"type": "disk", "pool": "nosuch", "source": name, "path": dataPath},
		"no path": {"type": "disk", "pool": c.Pool, "source": name},
		"block":   {"type": "disk", "pool": c.Pool, "source": block},
		"path":    {"type": "disk", "pool": c.Pool, "source": name, "path": "/"},
	}
	instance := c.instance()
	for what, device := range devices {
		post := c.request(unique("ct"))
		post.Devices["data"] = device
		err := c.done(c.Client.CreateInstance(c.ctx, post))
		if err == nil {
			c.tidy(post.Name)
		}
		if !errors.Is(err, incus.ErrInvalid) || errors.Is(err, incus.ErrNotFound) {
			c.Errorf("create with wrong %s: got %v, want %v", what, err, incus.ErrInvalid)
		}
		err = c.Client.PatchInstance(c.ctx, instance, incus.InstancePatch{Devices: map[string]map[string]string{"data": device}}, "")
		if !errors.Is(err, incus.ErrInvalid) || errors.Is(err, incus.ErrNotFound) {
			c.Errorf("patch with wrong %s: got %v, want %v", what, err, incus.ErrInvalid)
		}
		put := c.get(instance).Put()
		put.Devices["data"] = device
		c.wants(c.done(c.Client.UpdateInstance(c.ctx, instance, put, "")), incus.ErrOperation, incus.ErrInvalid)
	}
}

// usage is what a volume takes, -1 where the pool's driver can't tell.
func (c *contract) usage(name string) int64 {
	c.Helper()
	state, err := c.Client.GetStoragePoolVolumeState(c.ctx, c.Pool, name)
	c.must(err)
	if state.Usage == nil {
		return -1
	}
	return state.Usage.Used
}

func (c *contract) volumeCopies() {
	name := c.volume(func(v *incus.StorageVolume) { v.Description = "the first" })
	instance := c.instance(c.with(name))
	c.set(instance, "start")
	c.fill(instance, name, "one")
	c.must(c.done(c.Client.CreateStoragePoolVolumeSnapshot(c.ctx, c.Pool, name, "before")))
	copyOf := func(source incus.StorageVolumeSource) (string, error) {
		to := unique("vol")
		c.tidyVolume(c.Client, to)
		return to, c.done(c.Client.CopyStoragePoolVolume(c.ctx, c.Pool, source, incus.StorageVolume{Name: to}))
	}
	copied, err := copyOf(incus.StorageVolumeSource{Pool: c.Pool, Name: name, Location: "none"})
	c.must(err)
	got := c.getVolume(copied)
	same(c, "key of the copy", got.Config["user.contract"], "yes")
	same(c, "description of the copy", got.Description, "the first")
	same(c, "the copy knows whose files are whose", got.Config["volatile.idmap.last"], c.getVolume(name).Config["volatile.idmap.last"])
	equal(c, "snapshots of the copy", c.volumeSnapshotNames(copied), []string{"before"})
	bare, err := copyOf(incus.StorageVolumeSource{Pool: c.Pool, Name: name, VolumeOnly: true})
	c.must(err)
	equal(c, "snapshots of a copy without them", c.volumeSnapshotNames(bare), []string{})

	config := maps.Clone(c.getVolume(name).Config)
	config["user.own"], config["user.contract"] = "1", ""
	own := unique("vol")
	c.tidyVolume(c.Client, own)
	c.must(c.done(c.Client.CopyStoragePoolVolume(c.ctx, c.Pool, incus.StorageVolumeSource{Pool: c.Pool, Name: name}, incus.StorageVolume{Name: own, Description: "own", Config: config})))
	got = c.getVolume(own)
	same(c, "own key of the copy", got.Config["user.own"], "1")
	same(c, "key that the copy's configuration lacks", got.Config["user.contract"], "")
	same(c, "own description of the copy", got.Description, "own")

	c.fill(instance, name, "two")
	reader := c.instance(c.with(copied))
	c.set(reader, "start")
	c.holds(reader, copied, "one")
	c.holds(instance, name, "two")
	pool, err := c.Client.GetStoragePool(c.ctx, c.Pool)
	c.must(err)
	same(c, "the driver tells what a volume takes", c.usage(copied) >= 0, pool.Driver != "dir")
	_, err = c.Client.GetStoragePoolVolumeState(c.ctx, c.Pool, unique("no"))
	c.wants(err, incus.ErrNotFound)

	c.wants(c.done(c.Client.CopyStoragePoolVolume(c.ctx, c.Pool, incus.StorageVolumeSource{Pool: c.Pool, Name: name}, incus.StorageVolume{Name: copied})), incus.ErrAlreadyExists)
	_, err = copyOf(incus.StorageVolumeSource{Pool: c.Pool, Name: unique("no")})
	c.wants(err, incus.ErrOperation)
	_, err = copyOf(incus.StorageVolumeSource{Pool: "nosuch", Name: name})
	c.wants(err, incus.ErrOperation)
}
