package instance

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/path"

	domain "github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/machine"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// draft is a machine as far as it is written and known: the wish for the engine, and what stands against it.
type draft struct {
	argument.Reader
	wish rollout.Wish
}

// shaping are the arguments that the plan of an update depends on.
var shaping = []string{
	"name", "image", "type", "version", "description", "network", "static_ip", "mac", "security", "storage_pool", "volumes", "devices", "environment",
	"files", "config", "profiles", "limits", "node", "cluster_group", "health", "rollout",
}

// complete tells whether the wish can be rendered.
func (d *draft) complete() bool { return len(d.Problems()) == 0 && d.Known(shaping...) }

// newDraft reads and checks what the user wrote. It takes nothing from the server and nothing from what was worked out
// before, so that the same configuration always makes the same draft.
func newDraft(ctx context.Context, m model) *draft {
	d := &draft{}
	w := &d.wish
	w.Stable, w.Replicas = true, domain.Replicas{Count: 1}
	w.OnFailure = rollout.OnFailure(d.Text("on_failure", m.OnFailure))
	if w.OnFailure == "" {
		w.OnFailure = rollout.Undo
	}
	w.Node, w.Group = d.Text("node", m.Node), d.Text("cluster_group", m.ClusterGroup)
	if argument.Written(m.Node, m.ClusterGroup) {
		d.Refuse(path.Root("cluster_group"), "Unexpected cluster_group", "node says where the instance is already: leave one of the two out.")
	}
	a := &w.App
	a.Name, a.Type, a.Replicas = d.Name(m.Name), machine.TypeName, 1
	a.VM = d.Text("type", m.Type) == vm
	a.Image, a.Version = d.Image(m.Image, m.Version)
	a.Description = d.Text("description", m.Description)
	a.Network = d.Text("network", m.Network)
	a.StoragePool = d.Text("storage_pool", m.StoragePool)
	a.Environment = d.Texts("environment", m.Environment)
	a.Config = d.Texts("config", m.Config)
	a.Profiles = d.List("profiles", m.Profiles)
	if m.Profiles.IsNull() {
		a.Profiles = []string{"default"}
	}
	a.Limits = d.LimitsOf(limitNames(a.VM), m.Limits)
	a.Files = d.Files(ctx, m.Files)
	a.Volumes = d.Volumes(ctx, m.Volumes)
	d.CheckVolumeFiles(a.Volumes, a.Files)
	a.Devices = d.Devices(m.Devices, a.Volumes, taken(ctx, m))
	d.readAddresses(m)
	d.readSecurity(ctx, m)
	a.Health, w.Health = d.Health(ctx, m.Health)
	w.Rollout = d.Rollout(ctx, m.Rollout)
	d.checkVM()
	d.check(*a)
	return d
}

// limitNames are the limits that there are.
func limitNames(isVM bool) []string {
	if isVM {
		return argument.MachineLimitNames
	}
	return argument.LimitNames
}

// taken are the devices that arguments are known to make, by name.
func taken(ctx context.Context, m model) map[string]string {
	var security securityModel
	hasTPM := argument.Written(m.Security) && (&argument.Reader{}).Fields(ctx, path.Root("security"), m.Security, &security) && security.TPM.ValueBool()
	all := map[string]string{}
	for _, one := range []struct {
		device, argument string
		given            bool
	}{
		{"eth0", "network", argument.Written(m.Network)}, {"eth0", "static_ip", argument.Written(m.StaticIP)}, {"eth0", "mac", argument.Written(m.MAC)},
		{"root", "storage_pool", argument.Written(m.StoragePool)}, {tpmDevice, "security.tpm", hasTPM},
	} {
		if one.given && all[one.device] == "" {
			all[one.device] = one.argument
		}
	}
	return all
}

// check checks what all App types have: of what isn't known yet, as much as there is.
func (d *draft) check(a renderer.App) {
	if len(d.Problems()) == 0 && d.Known(shaping...) {
		for _, p := range renderer.Check(machine.Renderer{}, a) {
			d.AddProblem(p)
		}
		return
	}
	if !d.Known("health") {
		a.Health = nil
	}
	for _, p := range renderer.CheckApp(a) {
		if d.Known(argument.RootOf(p.Path)) {
			d.AddProblem(p)
		}
	}
}

// class is the class that the machine has with all that it holds; ok is false while that isn't known.
func (d *draft) class() (class domain.Class, held []string, ok bool) {
	class, held = rollout.ClassOf(machine.Renderer{}, d.wish.App)
	return class, held, !class.Atomic() || d.Known("volumes", "devices", "static_ip", "mac", "security", "type")
}

// render renders a draft, nil where it isn't complete.
func (d *draft) render() map[string]rollout.Rendered {
	if !d.complete() {
		return nil
	}
	rendered, err := rollout.Render(machine.Renderer{}, d.wish)
	if err != nil {
		return nil // renderer.Check renders too: an incomplete draft has said why
	}
	return rendered
}
