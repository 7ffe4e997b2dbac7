package provider_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	frameworkprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// world is a provider on an in-memory Incus, spoken to as a Terraform CLI does.
type world struct {
	t      *testing.T
	incus  *incustest.Server
	server tfprotov6.ProviderServer
	schema *tfprotov6.GetProviderSchemaResponse
}

// touching matches the calls that change anything but leases.
func touching(r incustest.Request) bool {
	return r.Mutating() && r.Query.Get("project") != rollout.DefaultCoordination && (r.Path != "/1.0/projects" || r.Method != http.MethodPost)
}

// values are a configuration or a state, by attribute.
type values = map[string]any

// later is a value that isn't known yet.
type later struct{}

// hurried is a clock in which sleeping takes no time.
type hurried struct {
	mu  sync.Mutex
	now time.Time
}

func (c *hurried) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *hurried) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
	return context.Cause(ctx)
}

// newWorld starts an Incus with the images web/1.0.0, web/1.1.0 and web/2.0.0-bad, which never gets healthy, and a
// provider that is configured for it.
func newWorld(t *testing.T, options ...incustest.Option) *world {
	t.Helper()
	w := newWorldUnconfigured(t, options...)
	w.configure(values{})
	return w
}

func newWorldUnconfigured(t *testing.T, options ...incustest.Option) *world {
	t.Helper()
	return newWorldOf(t, nil, options...)
}

// newWorldOf is a world with other App types than the provider's own; nil for those.
func newWorldOf(t *testing.T, types *renderer.Registry, options ...incustest.Option) *world {
	t.Helper()
	w := &world{t: t, incus: incustest.New(options...)}
	for _, version := range []string{"1.0.0", "1.1.0", "2.0.0-bad"} {
		w.incus.AddImage("web/"+version, version)
	}
	w.incus.OnExec = func(_ context.Context, c incustest.Command) (incus.ExecResult, error) {
		i, _ := w.incus.Instance(c.Instance)
		if c.Command[0] == "healthy" && strings.Contains(i.Config["user.homelab-ops.version"], "bad") {
			return incus.ExecResult{ExitCode: 1, Stderr: []byte("500 Internal Server Error")}, nil
		}
		return incus.ExecResult{}, nil
	}
	t.Cleanup(w.incus.Close)
	served, err := provider.New(provider.Options{Version: "test", Transport: w.incus.Transport(), Clock: &hurried{now: time.Unix(1_800_000_000, 0)}, Types: types})
	if err != nil {
		t.Fatal(err)
	}
	w.serve(served)
	return w
}

func (w *world) serve(p frameworkprovider.Provider) {
	w.t.Helper()
	server, err := providerserver.NewProtocol6WithError(p)()
	if err != nil {
		w.t.Fatal(err)
	}
	w.server = server
	if w.schema, err = server.GetProviderSchema(w.t.Context(), &tfprotov6.GetProviderSchemaRequest{}); err != nil {
		w.t.Fatal(err)
	}
	w.mustNot("get the schema", w.schema.Diagnostics)
}

func (w *world) configure(config values) {
	w.t.Helper()
	w.mustNot("configure", w.tryConfigure(config))
}

func (w *world) tryConfigure(config values) []*tfprotov6.Diagnostic {
	w.t.Helper()
	ty := w.schema.Provider.ValueType()
	value := w.dynamic(ty, w.encode(ty, config))
	valid, err := w.server.ValidateProviderConfig(w.t.Context(), &tfprotov6.ValidateProviderConfigRequest{Config: value})
	w.must(err)
	if hasError(valid.Diagnostics) {
		return valid.Diagnostics
	}
	resp, err := w.server.ConfigureProvider(w.t.Context(), &tfprotov6.ConfigureProviderRequest{Config: value, TerraformVersion: "1.11.4"})
	w.must(err)
	return resp.Diagnostics
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mustNot(doing string, diagnostics []*tfprotov6.Diagnostic) {
	w.t.Helper()
	if hasError(diagnostics) {
		w.t.Fatalf("%s:\n%s", doing, texts(diagnostics))
	}
}

func hasError(diagnostics []*tfprotov6.Diagnostic) bool {
	return slices.ContainsFunc(diagnostics, func(d *tfprotov6.Diagnostic) bool { return d.Severity == tfprotov6.DiagnosticSeverityError })
}

// texts writes diagnostics as a CLI would, without line breaks.
func texts(diagnostics []*tfprotov6.Diagnostic) string {
	var all []string
	for _, d := range diagnostics {
		all = append(all, fmt.Sprintf("%s: %s [%s]: %s", d.Severity, d.Summary, d.Attribute, d.Detail))
	}
	return strings.Join(all, "\n")
}

// heldApp is one homelabops_app, or homelabops_instance, as a CLI holds it.
type heldApp struct {
	*world
	kind     string
	state    tftypes.Value
	private  []byte
	identity *tfprotov6.ResourceIdentityData
}

const (
	appType     = "homelabops_app"
	machineType = "homelabops_instance"
)

func (w *world) app() *heldApp {
	return &heldApp{world: w, kind: appType, state: tftypes.NewValue(w.appSchema(), nil)}
}

// machine is a homelabops_instance.
func (w *world) machine() *heldApp {
	return &heldApp{world: w, kind: machineType, state: tftypes.NewValue(w.schema.ResourceSchemas[machineType].ValueType(), nil)}
}

func (r *heldApp) ty() tftypes.Type { return r.schema.ResourceSchemas[r.kind].ValueType() }

func (w *world) appSchema() tftypes.Type { return w.schema.ResourceSchemas[appType].ValueType() }

// change is a plan.
type change struct {
	config, planned tftypes.Value
	private         []byte
	replace         bool
	diagnostics     []*tfprotov6.Diagnostic
}

// empty tells whether the plan changes nothing of the resource.
func (c change) empty(r *heldApp) bool { return c.planned.Equal(r.state) }

func (r *heldApp) validate(config values) []*tfprotov6.Diagnostic {
	r.t.Helper()
	ty := r.ty()
	resp, err := r.server.ValidateResourceConfig(r.t.Context(), &tfprotov6.ValidateResourceConfigRequest{TypeName: r.kind, Config: r.dynamic(ty, r.encode(ty, config)),
		ClientCapabilities: &tfprotov6.ValidateResourceConfigClientCapabilities{WriteOnlyAttributesAllowed: true}})
	r.must(err)
	return resp.Diagnostics
}

// plan plans twice, as a CLI does, and fails where the two differ.
func (r *heldApp) plan(config values) change {
	r.t.Helper()
	first := r.planOnce(config)
	if second := r.planOnce(config); !hasError(first.diagnostics) && !second.planned.Equal(first.planned) {
		r.t.Fatalf("two plans of one configuration differ:\n%s\n%s", first.planned, second.planned)
	}
	return first
}

func (r *heldApp) planOnce(config values) change {
	r.t.Helper()
	ty := r.ty()
	c := change{config: r.encode(ty, config)}
	if c.diagnostics = r.validate(config); hasError(c.diagnostics) {
		return c
	}
	resp, err := r.server.PlanResourceChange(r.t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: r.kind, PriorState: r.dynamic(ty, r.state), Config: r.dynamic(ty, c.config),
		ProposedNewState: r.dynamic(ty, r.proposed(c.config)), PriorPrivate: r.private, PriorIdentity: r.identity,
	})
	r.must(err)
	c.diagnostics = resp.Diagnostics
	if hasError(c.diagnostics) {
		return c
	}
	c.planned, c.private, c.replace = r.decode(ty, resp.PlannedState), resp.PlannedPrivate, len(resp.RequiresReplace) > 0
	return c
}

// proposed merges configuration and prior state as a CLI does: what is computed and not configured stays as it is.
func (r *heldApp) proposed(config tftypes.Value) tftypes.Value {
	prior := fields(r.state)
	merged := maps.Clone(fields(config))
	for _, a := range r.schema.ResourceSchemas[r.kind].Block.Attributes {
		if v := merged[a.Name]; a.Computed && v.IsNull() && prior != nil {
			merged[a.Name] = prior[a.Name]
		}
		if a.WriteOnly {
			merged[a.Name] = tftypes.NewValue(a.Type, nil)
		}
	}
	return tftypes.NewValue(r.ty(), merged)
}

// apply plans and applies, and holds the provider to the rules that a CLI checks: what a plan knows comes true, and
// nothing stays unknown.
func (r *heldApp) apply(config values) []*tfprotov6.Diagnostic {
	r.t.Helper()
	c := r.plan(config)
	if hasError(c.diagnostics) {
		return c.diagnostics
	}
	if c.replace {
		r.t.Fatalf("the plan replaces the App")
	}
	return r.carryOut(c)
}

func (r *heldApp) carryOut(c change) []*tfprotov6.Diagnostic {
	r.t.Helper()
	return r.carryOutIn(r.t.Context(), c)
}

func (r *heldApp) carryOutIn(ctx context.Context, c change) []*tfprotov6.Diagnostic {
	r.t.Helper()
	ty := r.ty()
	resp, err := r.server.ApplyResourceChange(ctx, &tfprotov6.ApplyResourceChangeRequest{
		TypeName: r.kind, PriorState: r.dynamic(ty, r.state), PlannedState: r.dynamic(ty, c.planned), Config: r.dynamic(ty, c.config), PlannedPrivate: c.private,
		PlannedIdentity: r.identity,
	})
	r.must(err)
	after := r.decode(ty, resp.NewState)
	if !after.IsFullyKnown() {
		r.t.Fatalf("values are unknown after apply: %s", after)
	}
	if !hasError(resp.Diagnostics) {
		comesTrue(r.t, c.planned, after)
	}
	r.state, r.private = after, resp.Private
	if resp.NewIdentity != nil {
		r.identity = resp.NewIdentity
	}
	return resp.Diagnostics
}

// comesTrue fails where a value that a plan knew is another one afterwards.
func comesTrue(t *testing.T, planned, after tftypes.Value) {
	t.Helper()
	differences, err := planned.Diff(after)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		if d.Value1 != nil && d.Value1.IsKnown() && (d.Value1.IsFullyKnown() || d.Value1.IsNull()) {
			t.Errorf("planned %s = %s, but it became %s", d.Path, d.Value1, d.Value2)
		}
	}
}

func (r *heldApp) mustApply(config values) {
	r.t.Helper()
	r.mustNot("apply", r.apply(config))
}

// mustBeSettled refreshes and fails where the next plan is not empty.
func (r *heldApp) mustBeSettled(config values) {
	r.t.Helper()
	r.mustNot("refresh", r.refresh())
	c := r.plan(config)
	r.mustNot("plan", c.diagnostics)
	if !c.empty(r) {
		differences, _ := r.state.Diff(c.planned)
		r.t.Errorf("the next plan is not empty: %v", differences)
	}
}

func (r *heldApp) refresh() []*tfprotov6.Diagnostic {
	r.t.Helper()
	ty := r.ty()
	resp, err := r.server.ReadResource(r.t.Context(), &tfprotov6.ReadResourceRequest{TypeName: r.kind, CurrentState: r.dynamic(ty, r.state), Private: r.private, CurrentIdentity: r.identity})
	r.must(err)
	r.state, r.private = r.decode(ty, resp.NewState), resp.Private
	if resp.NewIdentity != nil {
		r.identity = resp.NewIdentity
	}
	return resp.Diagnostics
}

func (r *heldApp) destroy() []*tfprotov6.Diagnostic {
	r.t.Helper()
	null := tftypes.NewValue(r.ty(), nil)
	ty := r.ty()
	resp, err := r.server.PlanResourceChange(r.t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: r.kind, PriorState: r.dynamic(ty, r.state), Config: r.dynamic(ty, null), ProposedNewState: r.dynamic(ty, null), PriorPrivate: r.private, PriorIdentity: r.identity,
	})
	r.must(err)
	if hasError(resp.Diagnostics) {
		return resp.Diagnostics
	}
	return r.carryOut(change{config: null, planned: null, private: resp.PlannedPrivate})
}

func (r *heldApp) importBy(id string, identity *tfprotov6.ResourceIdentityData) []*tfprotov6.Diagnostic {
	r.t.Helper()
	resp, err := r.server.ImportResourceState(r.t.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: r.kind, ID: id, Identity: identity})
	r.must(err)
	if hasError(resp.Diagnostics) {
		return resp.Diagnostics
	}
	one := resp.ImportedResources[0]
	r.state, r.private, r.identity = r.decode(r.ty(), one.State), one.Private, one.Identity
	return r.refresh()
}

func (r *heldApp) expect(path, want string) {
	r.t.Helper()
	if got := at(r.state, path); got != want {
		r.t.Errorf("state has %s = %s, want %s", path, got, want)
	}
}

func (c change) expect(t *testing.T, path, want string) {
	t.Helper()
	if got := at(c.planned, path); got != want {
		t.Errorf("the plan has %s = %s, want %s", path, got, want)
	}
}

// says fails where no error has the summary and all of the parts.
func says(t *testing.T, diagnostics []*tfprotov6.Diagnostic, summary string, parts ...string) {
	t.Helper()
	for _, d := range diagnostics {
		text := d.Detail
		if d.Severity == tfprotov6.DiagnosticSeverityError && d.Summary == summary && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) }) {
			return
		}
	}
	t.Errorf("no error %q with %q, but:\n%s", summary, parts, texts(diagnostics))
}
