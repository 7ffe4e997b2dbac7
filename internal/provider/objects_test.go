package provider_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

const nodesType = "homelabops_nodes"

func (w *world) nodes(config values) (tftypes.Value, []*tfprotov6.Diagnostic) {
	w.t.Helper()
	ty := w.schema.DataSourceSchemas[nodesType].ValueType()
	resp, err := w.server.ReadDataSource(w.t.Context(), &tfprotov6.ReadDataSourceRequest{TypeName: nodesType, Config: w.dynamic(ty, w.encode(ty, config))})
	w.must(err)
	if hasError(resp.Diagnostics) {
		return tftypes.Value{}, resp.Diagnostics
	}
	return w.decode(ty, resp.State), nil
}

func TestNodesOfACluster(t *testing.T) {
	w := newWorld(t, incustest.WithMembers("gamma", "alpha", "beta"), incustest.WithGroup("edge", "gamma", "beta"))
	w.incus.OfflineMember("beta")
	w.incus.SetMemberStatus("alpha", "Evacuated")
	for filter, one := range map[string]struct {
		config values
		names  string
	}{
		"none":                      {nil, "[alpha; beta; gamma]"},
		"online":                    {values{"status": "online"}, "[gamma]"},
		"offline":                   {values{"status": "offline"}, "[beta]"},
		"evacuated":                 {values{"status": "evacuated"}, "[alpha]"},
		"group":                     {values{"group": "edge"}, "[beta; gamma]"},
		"group and status":          {values{"group": "edge", "status": "online"}, "[gamma]"},
		"architecture":              {values{"architecture": "x86_64"}, "[alpha; beta; gamma]"},
		"another architecture":      {values{"architecture": "aarch64"}, "[]"},
		"role":                      {values{"role": "database"}, "[alpha; beta; gamma]"},
		"a role that none has":      {values{"role": "ovn-chassis"}, "[]"},
		"a group that there is not": {values{"group": "attic"}, "[]"},
	} {
		t.Run(filter, func(t *testing.T) {
			state, diagnostics := w.nodes(one.config)
			w.mustNot("read", diagnostics)
			if got := at(state, "names"); got != one.names {
				t.Errorf("names are %s, want %s", got, one.names)
			}
		})
	}
}

func TestNodesOfAStandaloneServer(t *testing.T) {
	w := newWorld(t)
	for _, filter := range []values{nil, {"status": "online"}, {"group": "edge"}, {"role": "database"}} {
		state, diagnostics := w.nodes(filter)
		w.mustNot("read", diagnostics)
		if got := at(state, "nodes"); got != "[{address=- architecture=x86_64 description=- groups=[] message=- name=incustest roles=[] status=online}]" {
			t.Errorf("nodes are %s", got)
		}
	}
	state, _ := w.nodes(values{"status": "offline"})
	if got := at(state, "names"); got != "[]" {
		t.Errorf("offline nodes are %s", got)
	}
}

func TestNodesOfAServerThatIsNotKnownYet(t *testing.T) {
	w := newWorldUnconfigured(t)
	w.configure(values{"address": later{}})
	_, diagnostics := w.nodes(nil)
	says(t, diagnostics, "Provider configuration is not known yet", "list the nodes")
}

// call calls a function. Its result is of the type that the function declares.
func (w *world) call(name string, arguments ...string) (string, string) {
	w.t.Helper()
	var given []*tfprotov6.DynamicValue
	for _, a := range arguments {
		given = append(given, w.dynamic(tftypes.String, tftypes.NewValue(tftypes.String, a)))
	}
	resp, err := w.server.CallFunction(w.t.Context(), &tfprotov6.CallFunctionRequest{Name: name, Arguments: given})
	w.must(err)
	if resp.Error != nil {
		return "", resp.Error.Text
	}
	return text(w.decode(w.schema.Functions[name].Return.Type, resp.Result)), ""
}

func TestFunctions(t *testing.T) {
	w := newWorldUnconfigured(t)
	for _, one := range []struct {
		name      string
		arguments []string
		result    string
		failure   string
	}{
		{"classify_change", []string{"nginx", "1.26.0", "1.26.1"}, "patch", ""},
		{"classify_change", []string{"nginx", "1.26.0", "1.27.0"}, "minor", ""},
		{"classify_change", []string{"nginx", "2.0.0", "1.27.0"}, "downgrade", ""},
		{"classify_change", []string{"nginx", "latest", "1.27.0"}, "unknown", ""},
		{"classify_change", []string{"ngnix", "1", "2"}, "", `unknown App type "ngnix". Did you mean "nginx"? The types are agent, alloy, etcd, generic-stateless, `},
		{"check_change", []string{"nginx", "1.26.0", "1.27.0"}, "{allowed=true caution=- change=minor reason=- way_out=-}", ""},
		{"check_change", []string{"prometheus", "3.5.0+ds-1", "2.53.3+ds1-4"}, "{allowed=false caution=- change=downgrade reason=Prometheus 2.53.3+ds1-4 can't read time series that Prometheus 3 has written " +
			"way_out=Take 2.55, or 2.53.5 or a later release of 2.53; or make a new App of it with a volume of its own}", ""},
		{"check_change", []string{"prometheus", "2.53.3+ds1-4", "3.5.0+ds-1"}, "{allowed=true caution=2.53.3+ds1-4 may not be able to read what 3.5.0+ds-1 writes: " +
			"once this is through, the way back is to 2.55, or to 2.53.5 or a later release of 2.53 change=major reason=- way_out=-}", ""},
		{"check_change", []string{"prometheus", "latest", "2.53.3"}, "{allowed=true caution=- change=unknown reason=- way_out=-}", ""},
		{"check_change", []string{"ngnix", "1", "2"}, "", `unknown App type "ngnix". Did you mean "nginx"?`},
		{"parse_image", []string{"web/1.27.3"}, "{alias=web/1.27.3 digest=- fingerprint=- remote=- tag=- version=1.27.3}", ""},
		{"parse_image", []string{"docker:library/nginx:1.27"}, "{alias=library/nginx digest=- fingerprint=- remote=docker tag=1.27 version=1.27}", ""},
		{"parse_image", []string{"a b"}, "", `image "a b" contains a space or line break.`},
	} {
		result, failure := w.call(one.name, one.arguments...)
		if result != one.result || !strings.HasPrefix(failure, one.failure) || (failure == "") != (one.failure == "") {
			t.Errorf("%s%q is %s, %q", one.name, one.arguments, result, failure)
		}
	}
}
