package provider_test

import (
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// An App with an endpoint goes to another bridge.
func TestNetworkIsChangedWithAnEndpoint(t *testing.T) {
	for name, change := range map[string]values{
		"the same address": {},
		"another address":  {"endpoint": values{"listen_address": "10.98.1.1", "ports": []any{values{"listen": 80, "target": 8080}}}},
		"no endpoint":      {"endpoint": nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, incustest.WithNetwork("lan2", "bridge", "10.98.0.1/16"))
			r := w.app()
			r.mustApply(web(values{"network": incustest.DefaultNetwork}))
			to := web(values{"network": "lan2"}, change)
			c := r.plan(to)
			if hasError(c.diagnostics) {
				return // a plan that says what to do is fine
			}
			if d := r.carryOut(c); hasError(d) {
				t.Fatalf("the plan was without a word, and the apply:\n%s", texts(d))
			}
			r.mustBeSettled(to)
			w.mustNot("destroy", r.destroy())
		})
	}
}
