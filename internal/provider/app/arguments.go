package app

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/member"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// arguments is what the user wrote, to be kept on the App's instances for an import. Left out is what not everybody may
// read who reads an instance's configuration: secret parameters, and files that are not for all users of the instance.
func (d *draft) arguments(config tfsdk.Config) string {
	var leave []string
	spec := d.renderer.Type().Params
	if renderer.HasSecret(spec, d.wish.App.Params) {
		leave = append(leave, "params")
	}
	if argument.PrivateFiles(d.wish.App.Files) {
		leave = append(leave, "files")
	}
	for _, o := range d.wish.PerMember {
		if renderer.HasSecret(spec, o.Params) || argument.PrivateFiles(o.Files) {
			leave = append(leave, "per_member")
			break
		}
	}
	return argument.Pack(config, slices.Compact(leave)...)
}

// takeTags fills in, in an imported state, what the tags of the App's instances tell. Where nothing is kept of what the user
// wrote, that is all that is known.
func (m *model) takeTags(o rollout.Observation) {
	i := member.First(o)
	switch {
	case i == nil:
	case m.Image.IsNull():
		m.Type, m.Version, m.ImageFingerprint = outcome.Text(i.Tags.Type), outcome.Text(i.Tags.Version), outcome.Text(i.Tags.Image)
	case m.ImageFingerprint.IsNull():
		m.ImageFingerprint = outcome.Text(i.Tags.Image)
	}
}

// complete fills in, in an imported state, what a plan of the same arguments would work out, so that the first plan after
// the import is empty where all of them are back.
func (p *planning) complete(m *model) {
	if m.Version.IsNull() {
		m.Version = outcome.Text(p.draft.wish.App.Version)
	}
	p.prior = *m
	if decided := rollout.Decide(p.observed, p.draft.wish, p.rendered, p.facts()); decided.Empty() {
		m.RolloutPlan = outcome.Plan(decided, false)
	}
}

// imported tells whether a state comes from an import and was never refreshed.
func (m *model) imported() bool { return m.Members.IsNull() }
