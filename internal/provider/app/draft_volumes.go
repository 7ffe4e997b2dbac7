package app

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"

	domain "github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/sentence"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// readVolumes reads volumes and further devices, and refuses what several members can't have.
func (d *draft) readVolumes(ctx context.Context, m model) {
	a := &d.wish.App
	a.Volumes = d.Volumes(ctx, m.Volumes)
	taken := map[string]string{}
	if argument.Written(m.Network) {
		taken["eth0"] = "network"
	}
	if argument.Written(m.StoragePool) {
		taken["root"] = "storage_pool"
	}
	a.Devices = d.Devices(m.Devices, a.Volumes, taken)
	d.CheckVolumeFiles(a.Volumes, a.Files)
	if !d.Known("name", "replicas", "nodes") || d.wish.App.Replicas < 2 {
		return
	}
	if d.Known("volumes") {
		for _, err := range rollout.CheckVolumes(d.wish) {
			d.Refuse(path.Root("volumes"), "Several writers", "%s", sentence.Of(err))
		}
	}
	for _, held := range domain.ScarceIn(a.Devices) {
		if a.Devices[held.Device]["type"] == "nic" {
			d.Refuse(path.Root("devices").AtMapKey(held.Device), "Device of one instance",
				"Each of the App's %d members would have the %s, which one instance only can have: leave it out, or let replicas be 1. An endpoint gives an App one address that no instance holds.", d.wish.App.Replicas, held.What)
		}
	}
}

// checkWriters refuses disks among the devices that several instances would write at once.
func (d *draft) checkWriters() {
	class, _, ok := d.class()
	if !ok || !d.Known("name", "replicas", "nodes", "devices") {
		return
	}
	for _, err := range rollout.CheckWriters(d.wish, class) {
		d.Refuse(path.Root("devices"), "Several writers", "%s", sentence.Of(err))
	}
}

// class is the class that the App has with all that it holds; ok is false while that isn't known.
func (d *draft) class() (class domain.Class, held []string, ok bool) {
	if d.renderer == nil {
		return 0, nil, false
	}
	class, held = rollout.ClassOf(d.renderer, d.wish.App)
	return class, held, !class.Atomic() || d.Known("volumes", "devices")
}

// checkVolumeChange refuses what would leave data behind.
func (p *planning) checkVolumeChange(ctx context.Context) {
	if p.fresh || !p.draft.Known("volumes") {
		return
	}
	before := p.newDraft(ctx, p.prior)
	for _, err := range rollout.CheckVolumeChange(before.wish.App, p.draft.wish.App) {
		p.draft.Refuse(path.Root("volumes"), "refused", "%s", fmt.Sprintf("App %q: %s Nothing was changed.", p.draft.wish.App.Name, sentence.End(err.Error())))
	}
}
