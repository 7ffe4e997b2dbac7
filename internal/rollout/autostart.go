package rollout

import (
	"context"
	"maps"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// keyAutostart tells whether a server that starts also starts an instance: always, never, or, where neither the instance nor a
// profile says, if it ran when the server ended.
const keyAutostart = "boot.autostart"

// never is the value of keyAutostart for an instance on whose volumes another one runs: a server that restarts would make them
// two writers.
const never = "false"

// given is what an instance was given for its configuration: as it is, but for what its mark has put in place of that. What
// somebody has set since stays.
func given(raw *incus.Instance) map[string]string {
	m, _, err := markOf(raw)
	if err != nil || m.Autostart == nil || raw.Config[keyAutostart] != never {
		return raw.Config
	}
	return withAutostart(raw.Config, *m.Autostart)
}

// withAutostart is a configuration with another keyAutostart, empty for none.
func withAutostart(config map[string]string, value string) map[string]string {
	config = maps.Clone(config)
	if config[keyAutostart] = value; value == "" {
		delete(config, keyAutostart)
	}
	return config
}

// letBoot gives green, which was made while blue still ran on its volumes, the keyAutostart that it is to have.
func (r *run) letBoot(ctx context.Context, m *move) error {
	fail := func(err error) error {
		return &step{instance: m.name, doing: "let " + m.name + " be started with the server", err: err}
	}
	raw, etag, err := r.Incus.GetInstance(ctx, m.name)
	if err != nil {
		return fail(err)
	}
	put := raw.Put()
	if put.Config = withAutostart(put.Config, m.want.Spec.Config[keyAutostart]); put.Config[keyAutostart] == raw.Config[keyAutostart] {
		return nil
	}
	if err := r.update(ctx, m.name, put, etag); err != nil {
		return fail(err)
	}
	return nil
}
