package app

import (
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/sentence"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// readType checks the App against its type: parameters first, then what the type and all types ask for.
func (r *Resource) readType(d *draft, m model) {
	a := &d.wish.App
	if !d.Known("type") || m.Type.IsNull() {
		return
	}
	found, err := r.types.Get(a.Type)
	if err != nil {
		d.Refuse(path.Root("type"), "Unknown App type", "%s", sentence.Of(err))
		return
	}
	d.renderer = found

	unknown := map[string]bool{}
	var given map[string]any
	switch value := native("params", m.Params, unknown).(type) {
	case nil, unknownValue:
	case map[string]any:
		given = value
	default:
		d.Refuse(path.Root("params"), "Wrong type of parameters", "params takes an object of parameters, such as { port = 8080 }.")
		return
	}
	if len(unknown) > 0 {
		d.NotKnown("params")
	}
	params, problems := renderer.CheckParams(found.Type().Params, given)
	a.Params = params
	for _, p := range problems {
		if p.Summary == "Missing parameter" && (unknown[p.Path] || unknown["params"]) {
			continue // it is given, but not known yet
		}
		d.AddProblem(p)
	}
	d.readPerMember(m, found, given)
	if len(d.Problems()) == 0 && d.Known(shaping...) {
		for _, p := range renderer.Check(found, *a) {
			d.AddProblem(p)
		}
		if len(d.Problems()) == 0 {
			d.checkMembers()
		}
		return
	}
	if d.Known("upstreams") {
		for _, p := range renderer.CheckUpstreams(found.Type(), *a) {
			d.AddProblem(p)
		}
	}
	partly := *a
	if !d.Known("health") {
		partly.Health = nil
	}
	for _, p := range renderer.CheckApp(partly) {
		if d.Known(argument.RootOf(p.Path)) {
			d.AddProblem(p)
		}
	}
}
