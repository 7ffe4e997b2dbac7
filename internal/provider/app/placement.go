package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	domain "github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/sentence"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// settleMode asks the server for what the deployment mode needs: a cluster to opt in, and on a cluster the manager, which
// all members of an App that opts out are on. makes tells whether instances are to be made.
func (r *Resource) settleMode(ctx context.Context, d *draft, makes bool) diag.Diagnostics {
	if d.mode == "" {
		return nil
	}
	refuse := func(format string, args ...any) diag.Diagnostics {
		return diag.Diagnostics{diag.NewAttributeErrorDiagnostic(path.Root("deployment_mode"), "refused", fmt.Sprintf("App %q: %s", d.wish.App.Name, fmt.Sprintf(format, args...)))}
	}
	f, err := fleet.Read(ctx, r.connection.Client)
	switch {
	case err != nil:
		return diag.Diagnostics{r.connection.Diagnose(ctx, "look for the nodes of the server", err)}
	case d.mode == fleet.Cluster && f.Mode == fleet.Standalone:
		return refuse("deployment_mode is \"cluster\", but the server is standalone. Leave deployment_mode out to take the server's own mode.")
	case d.mode == fleet.Cluster || f.Mode == fleet.Standalone:
		return nil
	}
	manager, err := f.Manager(r.connection.ManagerGroup)
	switch {
	case err != nil:
		return refuse("deployment_mode = \"standalone\" keeps it on the manager. %s", sentence.Of(err))
	case makes && !manager.Online():
		return refuse("deployment_mode = \"standalone\" keeps it on the manager, %s, which is %s: no instance can be made there now.", manager.Name, manager.Status)
	}
	d.wish.Node = manager.Name
	return nil
}

// lookAtGroup refuses to make instances where no node of the cluster group takes any, and says which members stay where
// the group is not when it has changed.
func (p *planning) lookAtGroup(ctx context.Context) diag.Diagnostics {
	var diags diag.Diagnostics
	w := p.draft.wish
	if w.Group == "" || p.plan == nil {
		return nil
	}
	f, err := fleet.Read(ctx, p.connection.Client)
	if err != nil {
		return append(diags, p.connection.Diagnose(ctx, "look for the nodes of the server", err))
	}
	group := f.Group(w.Group)
	if makesInstances(p.plan) && len(group) > 0 && !slices.ContainsFunc(group, fleet.Node.Online) {
		diags.AddAttributeError(path.Root("cluster_group"), "refused", fmt.Sprintf("App %q: no node of cluster group %q is online, so that no instance can be made there now.", w.App.Name, w.Group))
	}
	if p.fresh || p.prior.ClusterGroup.ValueString() == w.Group || len(group) == 0 {
		return diags
	}
	diags.Append(p.stay("cluster_group", fmt.Sprintf("a node of %q", w.Group), func(node string) bool {
		return slices.ContainsFunc(group, func(n fleet.Node) bool { return n.Name == node })
	})...)
	return diags
}

// stayOffManager says which members of an App that has just opted out of the cluster stay elsewhere.
func (p *planning) stayOffManager() diag.Diagnostics {
	manager := p.draft.wish.Node
	if p.fresh || p.plan == nil || manager == "" || p.prior.DeploymentMode.ValueString() == string(fleet.Standalone) {
		return nil
	}
	return p.stay("deployment_mode", fmt.Sprintf("the manager, %s,", manager), func(node string) bool { return node == manager })
}

// stay warns of members that a changed argument would have elsewhere, and that this plan makes no new instance of.
func (p *planning) stay(argument, where string, allowed func(node string) bool) diag.Diagnostics {
	var stay []string
	for _, m := range p.plan.Moves {
		if m.Blue != nil && !allowed(m.Blue.Node) && m.Action != rollout.Replace && m.Action != rollout.Remove {
			stay = append(stay, fmt.Sprintf("%s on %s", m.Blue.Name, m.Blue.Node))
		}
	}
	if len(stay) == 0 {
		return nil
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root(argument), "Members stay where they are", fmt.Sprintf("App %q: a changed %s moves no instance. %s: each moves to %s with its next generation.",
		p.draft.wish.App.Name, argument, strings.Join(stay, ", "), where))}
}

// checkStrangers refuses entries for nodes that have no member, but for nodes that are away: they drop out
// of a list of online ones, and their members are kept.
func (p *planning) checkStrangers(ctx context.Context) diag.Diagnostics {
	d := p.draft
	if len(d.strangers) == 0 || !p.connection.Known() {
		return nil
	}
	f, err := fleet.Read(ctx, p.connection.Client)
	if err != nil {
		return diag.Diagnostics{p.connection.Diagnose(ctx, "look for the nodes of the server", err)}
	}
	for _, s := range d.strangers {
		if node, there := f.Node(s.key); !there || node.Online() {
			d.refuseKey(s.argument, s.key)
		}
	}
	return d.Diagnostics()
}

// away warns of members that a run would leave alone since their node is away.
func away(plan rollout.Plan) diag.Diagnostics {
	return outcome.Warnings(noun, plan.App, plan.LeftAlone())
}

// allAway tells whether every member of a plan is left alone.
func allAway(plan rollout.Plan) bool {
	return len(plan.Moves) > 0 && !slices.ContainsFunc(plan.Moves, func(m rollout.Move) bool { return m.Action != rollout.Skip })
}

// makesInstances tells whether a run of the plan makes instances.
func makesInstances(plan *rollout.Plan) bool {
	return plan != nil && slices.ContainsFunc(plan.Moves, func(m rollout.Move) bool {
		return m.Action == rollout.Create || m.Action == rollout.Replace
	})
}

// claim notes which nodes a per-node App takes, and reports another one of its type that this configuration has there.
func (p *planning) claim() diag.Diagnostics {
	d := p.draft
	if !p.connection.Known() || !d.Known("name", "type", "replicas", "nodes") {
		return nil
	}
	if !d.wish.Replicas.PerNode {
		p.connection.Claims.Leave(d.wish.App.Name)
		return nil
	}
	if rival, node := p.connection.Claims.Take(d.wish.App.Name, d.wish.App.Type, d.wish.Nodes); rival != "" {
		return p.rivalry(rival, node, "This configuration has both: give each node to one of them.")
	}
	return nil
}

func (p *planning) rivalry(rival, node, more string) diag.Diagnostics {
	a := p.draft.wish.App
	return diag.Diagnostics{diag.NewAttributeErrorDiagnostic(path.Root("nodes"), "refused", fmt.Sprintf(
		"App %q: node %q has a member of App %q, which is of type %s too, and a node gets at most one member of a type from per-node Apps. %s", a.Name, node, rival, a.Type, more))}
}

const (
	rivalTime  = 3 * time.Second
	rivalPause = 100 * time.Millisecond
)

// lookForRivals reports per-node Apps of the same type that the server has on the App's nodes. One that this process plans
// or removes too has said itself which nodes it keeps; since Terraform does that at the same time, a moment is waited for it.
func (p *planning) lookForRivals(ctx context.Context) diag.Diagnostics {
	w := p.draft.wish
	if !w.Replicas.PerNode || !p.draft.Known("name", "type", "nodes") {
		return nil
	}
	list, err := p.connection.Client.GetInstances(ctx, incus.InstancesFilter{Filter: "config." + domain.KeyType + " eq " + w.App.Type, NoState: true})
	if err != nil {
		return diag.Diagnostics{p.connection.Diagnose(ctx, fmt.Sprintf("look for other Apps of type %s", w.App.Type), err)}
	}
	rivals := map[string]string{} // a node by App
	for _, i := range list {
		tags, ours, err := domain.ParseTags(i.Config)
		if ours && err == nil && tags.Type == w.App.Type && tags.App != w.App.Name && slices.Contains(w.Nodes, tags.Member) {
			rivals[tags.App] = tags.Member
		}
	}
	for _, rival := range slices.Sorted(maps.Keys(rivals)) {
		if !p.hear(ctx, rival) {
			return p.rivalry(rival, rivals[rival], "Take that node out of nodes, or let the other App give it up first (or remove it), in an apply of its own.")
		}
	}
	return p.claim() // again: by now the others have said which nodes they keep
}

// hear waits a moment for word of an App.
func (p *planning) hear(ctx context.Context, app string) bool {
	for waited := time.Duration(0); !p.connection.Claims.Heard(app); waited += rivalPause {
		if waited >= rivalTime || p.connection.Engine.Clock.Sleep(ctx, rivalPause) != nil {
			return false
		}
	}
	return true
}
