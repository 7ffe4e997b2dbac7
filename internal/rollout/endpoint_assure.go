package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// assure writes an endpoint once more as it is, after each change and before anything stops that it may have led to: where
// another process changes a forward of the network at the same moment, the server (Incus 6.0.4) may show what was written and go on
// as before. Any later change puts in force all of a network's forwards, as they are shown then. It has to be a change: what is
// written as it is already, the server takes for done.
func (r *run) assure(ctx context.Context) error {
	r.leading.Lock()
	defer r.leading.Unlock()
	if r.assured {
		return nil
	}
	for _, network := range r.endpointNetworks() {
		ours, err := r.rawForwards(ctx, network, r.wish.App.Name)
		if err == nil && len(ours) > 0 {
			again := ours[0]
			times, _ := strconv.Atoi(again.Config[app.KeyWritten])
			again.Config = maps.Clone(again.Config)
			again.Config[app.KeyWritten] = strconv.Itoa(times + 1)
			err = r.Incus.UpdateNetworkForward(ctx, network, again.ListenAddress, again, "")
		}
		if err != nil && !errors.Is(err, incus.ErrNotFound) {
			return fmt.Errorf("write the endpoint once more: %w", err)
		}
	}
	r.assured = true
	return nil
}
