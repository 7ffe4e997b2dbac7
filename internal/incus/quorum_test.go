package incus_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

func TestLossOfQuorumIsToldFromABusyServer(t *testing.T) {
	const transaction = "Failed to begin transaction: failed to create cowsql connection: no available cowsql leader server found"
	list := func(c *incus.Client) error {
		_, err := c.GetInstances(t.Context(), incus.InstancesFilter{})
		return err
	}
	members := func(c *incus.Client) error { _, err := c.GetClusterMembers(t.Context()); return err }
	for name, one := range map[string]struct {
		status int
		text   string
		ask    func(*incus.Client) error
		want   bool
	}{
		"a list":                          {503, transaction, list, true},
		"members":                         {503, transaction, members, true},
		"members, whose leader is sought": {500, "context deadline exceeded", members, true},
		"members, by an older leader":     {500, "Failed to get leader address: failed to send Leader request: call leader (budget -2.8ms): send: header: write unix @->@92770: i/o timeout", members, true},
		"a list, right after the loss":    {500, "Failed to begin transaction: context deadline exceeded", list, true},
		"a change":                        {503, transaction, func(c *incus.Client) error { return c.DeleteProfile(t.Context(), "p") }, true},
		"a server that starts":            {503, "Daemon is starting up", list, false},
		"a busy database":                 {500, "Failed to begin transaction: database is locked", list, false},
		"a node that doesn't answer":      {500, "context deadline exceeded", list, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := one.ask(answering(t, one.status, "application/json", fmt.Appendf(nil, `{"type":"error","error":%q,"error_code":%d}`, one.text, one.status)))
			if err == nil || errors.Is(err, incus.ErrNoQuorum) != one.want {
				t.Errorf("got %v, want that it is no quorum: %t", err, one.want)
			}
			if one.want && !errors.Is(err, incus.ErrBusy) {
				t.Errorf("%v is not passing", err)
			}
		})
	}
}
