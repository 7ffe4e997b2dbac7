package rollout

import (
	"context"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

type bridges struct {
	bridge
	all []incus.Instance
}

func (b bridges) GetInstances(context.Context, incus.InstancesFilter) ([]incus.Instance, error) {
	return b.all, nil
}

// Another App goes over from router 51 to 7: its instances say two things.
func TestEachInstanceOfAnotherAppMayHoldARouterID(t *testing.T) {
	other := func(name, floating string) incus.Instance {
		return incus.Instance{Name: name, Config: map[string]string{app.KeyApp: "other", app.KeyFloating: floating},
			ExpandedDevices: map[string]map[string]string{"eth0": {"type": "nic", "network": "lan"}}}
	}
	server := bridges{bridge{network: incus.Network{Name: "lan", Type: "bridge", Managed: true}}, []incus.Instance{other("other-0-g0", "10.0.0.8/24 51"), other("other-0-g1", "10.0.0.8/24 7")}}
	r := &run{Engine: &Engine{Incus: &server}, network: "lan"}
	r.wish.App = renderer.App{Name: "lb", Floating: &renderer.Floating{Address: "10.0.0.9/24", Router: 7}}
	if problems, err := r.floatingProblems(t.Context()); err != nil || len(problems) != 1 {
		t.Errorf("%v %v, want that router_id 7 is taken", problems, err)
	}
}
