package rollout_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// A proxy's new instance is being made when another process rolls its upstream: that binds what there is of the new instance, and
// then the files come that were rendered before.
func TestAProxyThatIsMadeWhileItsUpstreamMovesLeadsToWhatIsThere(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		other := *s.Engine
		other.Locks = &rollout.Locks{} // another process
		pushes := func(r incustest.Request) bool {
			return r.Method == http.MethodPost && r.Path == "/1.0/instances/proxy-0-g1/files"
		}
		s.server.Meanwhile(1, pushes, func(context.Context) bool {
			if _, err := other.Apply(t.Context(), s.to("1.1.0"), s.facts(false)); err != nil {
				t.Error(err)
			}
			return true
		})
		w := s.proxy("proxy", "web")
		w.App.Image, w.App.Version = "web/1.1.0", "1.1.0"
		if _, err := s.applyProxy(w, false); err != nil {
			t.Fatal(err)
		}
		if got := s.serving(); !slices.Contains(got, "proxy-0-g1") {
			t.Fatalf("the proxies are %v", got)
		}
		s.checkFollowers("after both")
		result, err := s.applyProxy(w, false)
		if err != nil || !result.Plan.Empty() {
			t.Errorf("the proxy's own next plan: %v (%v)", result.Plan.Steps(), err)
		}
		s.checkFollowers("after one more apply")
	})
}
