package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// mark is written on an instance that was stopped for a successor, once its volumes' snapshots are taken and before the
// successor starts. While it holds, the volumes may have been written by the successor, and are put back to the snapshots
// before the instance runs again. It holds only as long as the instance has not been started since: one that somebody has
// rescued by hand has its volumes to itself again, and what it wrote there is never put back.
type mark struct {
	Devices  map[string]map[string]string `json:"devices"`   // as they were
	LastUsed time.Time                    `json:"last_used"` // when the instance was last started, by the server's word
	// Autostart is what the instance had for keyAutostart, empty where that was left to its profiles; nil in a mark of a former
	// version, which left it as it was.
	Autostart *string `json:"autostart,omitempty"`
}

// markOf reads an instance's mark; there is false where it has none.
func markOf(raw *incus.Instance) (m mark, there bool, err error) {
	text, there := raw.Config[app.KeyHeld]
	if !there {
		return mark{}, false, nil
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return mark{}, true, fmt.Errorf("%s on %s can't be read: %w", app.KeyHeld, raw.Name, err)
	}
	return m, true, nil
}

// holds tells whether an instance is marked and has not run since.
func holds(raw *incus.Instance) bool {
	m, there, err := markOf(raw)
	return there && err == nil && !raw.Running() && raw.LastUsedAt.Equal(m.LastUsed)
}

// staleMark tells whether an instance has a mark that no longer holds.
func (i *Instance) staleMark() bool {
	_, there := i.config[app.KeyHeld]
	return there && !i.Marked
}

// handOver marks a stopped instance, takes the addresses off it that the server lets one instance have only, and sees to it
// that a server which restarts does not start it beside its successor.
func (e *Engine) handOver(ctx context.Context, blue *Instance) error {
	raw, etag, err := e.Incus.GetInstance(ctx, blue.Name)
	if err != nil {
		return err
	}
	m := mark{Devices: raw.Devices, LastUsed: raw.LastUsedAt}
	if holds(raw) {
		if m, _, err = markOf(raw); err != nil || m.Autostart != nil {
			return err
		}
	}
	own := given(raw)[keyAutostart]
	m.Autostart = &own
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	put := raw.Put()
	put.Devices, _ = app.WithoutAddresses(raw.Devices)
	put.Config = withAutostart(put.Config, never)
	put.Config[app.KeyHeld] = string(text)
	return e.update(ctx, blue.Name, put, etag)
}

// takeBack gives a marked instance its devices and its configuration back and takes the mark off: its volumes are its own again.
func (e *Engine) takeBack(ctx context.Context, name string) error {
	raw, etag, err := e.Incus.GetInstance(ctx, name)
	if err != nil {
		return err
	}
	m, there, err := markOf(raw)
	if err != nil || !there {
		return err
	}
	put := raw.Put()
	put.Config = maps.Clone(given(raw))
	delete(put.Config, app.KeyHeld)
	put.Devices = m.Devices
	return e.update(ctx, name, put, etag)
}

func (e *Engine) update(ctx context.Context, name string, put incus.InstancePut, etag string) error {
	op, err := e.Incus.UpdateInstance(ctx, name, put, etag)
	if err != nil {
		return err
	}
	return await(ctx, op, func() (bool, error) { return e.written(ctx, name, put) })
}
