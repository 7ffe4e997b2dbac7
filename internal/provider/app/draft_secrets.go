package app

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	domain "github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// readSecrets reads what says of the secrets that they have changed, and whose they are.
func (d *draft) readSecrets(m model) {
	if m.SecretsVersion.IsUnknown() {
		d.NotKnown("secrets_wo_version")
	}
	if version := m.SecretsVersion; !version.IsNull() && !version.IsUnknown() {
		d.wish.App.SecretsVersion = strconv.FormatInt(version.ValueInt64(), 10)
	}
	d.wish.App.SecretsUID = d.Number("secrets_uid", m.SecretsUID)
}

// takeSecrets takes the secrets themselves over from the configuration: no other model has them. Those that an ephemeral
// value is yet to give are not known while it is planned, which changes nothing of a plan.
func (d *draft) takeSecrets(config model) {
	if d.renderer == nil || config.Secrets.IsUnknown() {
		return
	}
	of := map[string]map[string]string{} // by member; those of all members under ""
	known := true
	for name, value := range config.Secrets.Elements() {
		text, ok := value.(types.String)
		switch {
		case !ok || value.IsNull():
			d.Refuse(path.Root("secrets_wo"), "Null value", "The secret %s is null: give it a text, or leave it out.", name)
			known = false
			continue
		case value.IsUnknown():
			known = false
			continue
		}
		member, secret, own := strings.Cut(name, "/")
		if !own {
			member, secret = "", name
		}
		if of[member] == nil {
			of[member] = map[string]string{}
		}
		of[member][secret] = text.ValueString()
	}
	if !known {
		return
	}
	a := &d.wish.App
	a.Secrets = of[""]
	delete(of, "")
	keys := slices.SortedFunc(maps.Keys(of), domain.CompareKeys)
	d.checkKeys("secrets_wo", keys)
	for _, key := range keys {
		if d.wish.PerMember == nil {
			d.wish.PerMember = map[string]rollout.Override{}
		}
		o := d.wish.PerMember[key]
		o.Secrets = of[key]
		d.wish.PerMember[key] = o
	}
	d.checkSecrets()
	if d.complete() {
		d.checkAccord("secrets_wo")
	}
}

// checkSecrets checks the secrets that each member has.
func (d *draft) checkSecrets() {
	reported := map[renderer.Problem]bool{}
	report := func(secrets map[string]string) {
		for _, p := range renderer.CheckSecrets(d.renderer.Type(), secrets) {
			if p.Summary == renderer.MissingSecret && !d.Known("replicas", "nodes") {
				continue // each member may have its own
			}
			if !reported[p] {
				reported[p] = true
				d.AddProblem(p)
			}
		}
	}
	if len(d.members()) == 0 {
		report(d.wish.App.Secrets)
	}
	for _, key := range d.members() {
		report(d.wish.AppOf(key).Secrets)
	}
}
