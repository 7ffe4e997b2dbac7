package rollout

import (
	"context"
	"fmt"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
)

// Orphans names the volumes of an App that go with it (retain = false), have outlived its instances, and are in no other
// one's use: as long as they are there, so is something of the App, which a destroy removes.
func (e *Engine) Orphans(ctx context.Context, o Observation) ([]string, error) {
	all, err := e.keptVolumes(ctx, o.App, o.mountedPools())
	if err != nil {
		return nil, fmt.Errorf("look for volumes that App %q has left: %w", o.App, err)
	}
	var names []string
	for _, k := range all {
		if k.Config[app.KeyRetain] == "false" && len(k.UsedBy) == 0 {
			names = append(names, k.Name)
		}
	}
	return names, nil
}
