package app

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"

	domain "github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/sentence"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// draft is an App as far as it is written and known: the wish for the engine, and what stands against it.
type draft struct {
	argument.Reader
	wish     rollout.Wish
	renderer renderer.Renderer // nil where the type isn't known or doesn't exist

	endpoint  *rollout.Endpoint // as written; the wish has it where the server leads to it, and not the members themselves
	mode      fleet.Mode        // as it is written; empty for the server's own
	strangers []stranger        // entries for members that none of nodes has

	projects map[string]string // of upstreams whose App is written with its project, by name
}

// shaping are the arguments that the plan of a roll-out depends on.
var shaping = []string{
	"name", "type", "description", "image", "version", "replicas", "nodes", "params", "per_member", "environment", "files", "limits",
	"config", "profiles", "volumes", "devices", "network", "storage_pool", "upstreams", "health", "rollout", "secrets_wo_version", "secrets_uid",
	"vrrp", // of endpoint
}

// complete tells whether the wish can be rendered.
func (d *draft) complete() bool {
	return d.renderer != nil && len(d.Problems()) == 0 && d.Known(shaping...)
}

// newConfigured reads and checks a configuration with all that only a configuration has.
func (r *Resource) newConfigured(ctx context.Context, config model) *draft {
	d := r.newDraft(ctx, config)
	d.takeSecrets(config)
	d.readMode(config.DeploymentMode)
	d.checkWriters()
	return d
}

// newDraft reads and checks what the user wrote. It takes nothing from the server and nothing from what was worked out
// before, so that the same configuration always makes the same draft.
func (r *Resource) newDraft(ctx context.Context, m model) *draft {
	d := &draft{}
	d.wish.OnFailure = rollout.OnFailure(d.Text("on_failure", m.OnFailure))
	if d.wish.OnFailure == "" {
		d.wish.OnFailure = rollout.Undo
	}
	a := &d.wish.App
	a.Name = d.Name(m.Name)
	a.Type = d.Text("type", m.Type)
	a.Description = d.Text("description", m.Description)
	a.Network = d.Text("network", m.Network)
	a.StoragePool = d.Text("storage_pool", m.StoragePool)
	a.Environment = d.Texts("environment", m.Environment)
	a.Config = d.Texts("config", m.Config)
	a.Profiles = d.List("profiles", m.Profiles)
	if a.Profiles == nil && d.Known("profiles") {
		a.Profiles = []string{"default"}
	}
	d.readReplicas(m)
	d.readPlacement(m)
	a.Image, a.Version = d.Image(m.Image, m.Version)
	a.Limits = d.Limits(m.Limits)
	a.Files = d.Files(ctx, m.Files)
	d.readSecrets(m)
	d.readVolumes(ctx, m)
	a.Health, d.wish.Health = d.Health(ctx, m.Health)
	d.wish.Rollout = d.Rollout(ctx, m.Rollout)
	d.readEndpoint(ctx, m)
	d.readUpstreams(ctx, m)
	r.readType(d, m)
	return d
}

func (d *draft) readReplicas(m model) {
	w := &d.wish
	text := d.Text("replicas", m.Replicas)
	if m.Nodes.IsUnknown() {
		d.NotKnown("nodes")
	}
	w.Nodes = d.Elements("nodes", m.Nodes.Elements())
	slices.Sort(w.Nodes)
	if !d.Known("replicas") || m.Replicas.IsNull() {
		return
	}
	replicas, err := domain.ParseReplicas(text)
	if err != nil {
		d.Refuse(path.Root("replicas"), "Invalid replicas", "%s", sentence.Of(err))
		return
	}
	w.Replicas = replicas
	w.App.Replicas = replicas.Count
	switch {
	case !replicas.PerNode && argument.Written(m.Nodes):
		d.Refuse(path.Root("nodes"), "Unexpected nodes", "nodes goes with replicas = %q only; with a count the server chooses where members run.", domain.PerNode)
	case replicas.PerNode && m.Nodes.IsNull():
		d.Refuse(path.Root("nodes"), "Missing nodes", "replicas = %q needs nodes, the names of the nodes that get a member each: for all that are online, nodes = data.homelabops_nodes.<name>.names of a data source with status = \"online\".", domain.PerNode)
	case replicas.PerNode && d.Known("nodes") && len(w.Nodes) == 0:
		d.Refuse(path.Root("nodes"), "Missing nodes", "nodes is empty: an App has at least one member. If the names come from a data source, none matched its filter.")
	case replicas.PerNode && slices.Contains(w.Nodes, "") && d.Known("nodes"):
		d.Refuse(path.Root("nodes"), "Invalid node", "A name in nodes is empty or null.")
	}
	if replicas.PerNode {
		w.App.Replicas = len(w.Nodes)
		if err := domain.CheckLabels(w.Members()); err != nil {
			d.Refuse(path.Root("nodes"), "Invalid node", "%s", sentence.Of(err))
		}
	}
	if d.Known("name") && !m.Name.IsNull() && domain.CheckName(w.App.Name) == nil && replicas.PerNode {
		if err := domain.CheckMemberNames(w.App.Name, w.Members()); err != nil {
			d.Refuse(path.Root("name"), "Invalid name", "%s", sentence.Of(err))
		}
	}
}
