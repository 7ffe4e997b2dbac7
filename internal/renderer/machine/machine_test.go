package machine

import (
	"context"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

func TestMachineIsWhatItsUserWrote(t *testing.T) {
	a := renderer.App{
		Name: "nas", Description: "files", Profiles: []string{"default"}, Network: "lan", Environment: map[string]string{"TZ": "UTC"},
		Devices: map[string]map[string]string{"eth0": {"type": "nic", "network": "lan", "ipv4.address": "192.0.2.7"}},
	}
	spec, err := Renderer{}.Desired(a, app.Identity{App: "nas", Member: "0"})
	if err != nil {
		t.Fatal(err)
	}
	if spec.Config["environment.TZ"] != "UTC" || spec.Hot.Description != "files" || spec.Devices["eth0"]["ipv4.address"] != "192.0.2.7" || len(spec.Files) > 0 {
		t.Errorf("got %+v", spec)
	}
}

func TestMachineWithoutAProbeIsHealthyWhileItRuns(t *testing.T) {
	if err := (Renderer{}).Healthy(context.Background(), nil, renderer.App{}, renderer.Target{}); err != nil {
		t.Error(err)
	}
	if !(Renderer{}).RunningIsHealthy(renderer.App{}) || (Renderer{}).RunningIsHealthy(renderer.App{Health: &renderer.Health{TCP: &renderer.TCPProbe{Port: 22}}}) {
		t.Error("want running to be healthy exactly where there is no probe")
	}
}
