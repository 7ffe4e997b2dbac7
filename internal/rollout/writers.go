package rollout

import (
	"context"
	"fmt"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// CheckWriters tells which disks among an App's devices several instances would write at once, as far as that can be told
// without the server: those of several members, and those of a member and its successor where the class has both run.
func CheckWriters(w Wish, class app.Class) []error {
	var all []error
	for _, held := range app.ScarceIn(w.App.Devices) {
		device := w.App.Devices[held.Device]
		switch {
		case device["type"] != "disk":
		case len(w.Members()) > 1 && (!w.Replicas.PerNode || !app.OfItsHost(device) && device["pool"] == ""): // see writerProblems for pools
			all = append(all, severalWriters(w, held))
		case !class.Atomic() && class != app.ExclusiveHolder:
			all = append(all, fmt.Errorf("device %q of App %q, the %s, would be written by two instances at once, since one of class %d starts while the one before it runs: "+
				"set readonly = \"true\" on the device, or make it one of volumes", held.Device, w.App.Name, held.What, int(class)))
		}
	}
	return all
}

func severalWriters(w Wish, held app.Scarce) error {
	var keys []string
	for _, m := range w.Members() {
		keys = append(keys, m.Key)
	}
	perNode := ""
	if !w.Replicas.PerNode && app.OfItsHost(w.App.Devices[held.Device]) {
		perNode = fmt.Sprintf(", have one member on each node with replicas = %q", app.PerNode)
	}
	return fmt.Errorf("device %q of App %q, the %s, would be written by %d members at once (%s): set readonly = \"true\" on the device%s, "+
		"or make it one of volumes, where each member has its own, or all have one with shared = true and share_safe, which says why that is safe",
		held.Device, w.App.Name, held.What, len(keys), joined(keys), perNode)
}

// writerProblems tells which disks among the App's devices several instances would write at once. One member on each node has
// a volume of a name for itself only where the pool is on each node by itself.
func (r *run) writerProblems(ctx context.Context) ([]Problem, error) {
	var all []Problem
	for _, err := range CheckWriters(r.wish, r.plan.Class) {
		all = append(all, Problem{Err: err})
	}
	if !r.wish.Replicas.PerNode || len(r.wish.Members()) < 2 {
		return all, nil
	}
	var volumes []app.Scarce
	known := r.knownPools()
	for _, held := range app.ScarceIn(r.wish.App.Devices) {
		if device := r.wish.App.Devices[held.Device]; device["type"] == "disk" && device["pool"] != "" {
			volumes, known = append(volumes, held), append(known, device["pool"])
		}
	}
	if len(volumes) == 0 {
		return all, nil
	}
	pools, err := fleet.Pools(ctx, r.Incus, known...)
	if err != nil {
		return nil, err
	}
	for _, held := range volumes {
		if reachOf(pools, r.wish.App.Devices[held.Device]["pool"]) == fleet.EveryNode {
			all = append(all, Problem{Err: severalWriters(r.wish, held)})
		}
	}
	return all, nil
}

// heldByProfiles tells which scarce resources several instances would get from their profiles: those that exist at a time, in
// general or during a roll-out. Only the devices that come to an instance count: a later profile's go before an earlier one's,
// and the App's own before all.
func (r *run) heldByProfiles(profiles []incus.Profile) []Problem {
	if !r.plan.hasWork(Create, Replace) || len(r.plan.Moves) == 1 && r.plan.Strategy == InPlace {
		return nil
	}
	var all []Problem
	given := r.ownDevices()
	for n := len(profiles) - 1; n >= 0; n-- {
		devices := map[string]map[string]string{}
		for name, device := range profiles[n].Devices {
			if !given[name] {
				devices[name], given[name] = device, true
			}
		}
		for _, held := range app.ScarceIn(devices) {
			device := devices[held.Device]
			if r.plan.Strategy == InPlace && r.wish.Replicas.PerNode && app.OfItsHost(device) {
				continue
			}
			wayOut := "write it as a device of the App, which is then updated in place"
			if device["type"] == "disk" {
				wayOut += `; or set readonly = "true" on it`
			}
			all = append(all, Problem{Err: fmt.Errorf("profile %q gives every instance the %s, which one instance only can have: %s", profiles[n].Name, held, wayOut)})
		}
	}
	return all
}

// ownDevices are the names of the devices that an instance has of the App, and not of a profile.
func (r *run) ownDevices() map[string]bool {
	a := r.wish.App
	own := map[string]bool{"eth0": a.Network != "", "root": a.StoragePool != ""}
	for name := range a.Devices {
		own[name] = true
	}
	for _, v := range a.Volumes {
		own[v.Name] = true
	}
	return own
}
