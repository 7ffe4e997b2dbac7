//go:build lab

package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// TestLabClusterNoTwoRunsEverHoldAnApp lets eight runs contend for one App, 200 times, through the members that are left of
// a cluster which has lost one.
func TestLabClusterNoTwoRunsEverHoldAnApp(t *testing.T) {
	const contenders, rounds = 8, 200
	c := lab.AttachClusterAlone(t)
	project := c.Project(t)
	leader, err := c.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var alive []string
	down := ""
	for _, m := range c.Members() {
		if down == "" && m.Name != leader {
			down = m.Name
			continue
		}
		alive = append(alive, m.Name)
	}
	if err := c.Kill(down); err != nil {
		t.Fatal(err)
	}
	var all []*rollout.Leases
	for n := range contenders {
		client, err := incus.New(incus.Config{Address: "unix://" + c.Socket(alive[n%len(alive)])})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		all = append(all, &rollout.Leases{
			Profiles:      rollout.ProfilesOf(client),
			CreateProject: client.CreateProject, Coordination: project, Holder: fmt.Sprintf("run %d through %s", n, alive[n%len(alive)]),
		})
	}
	began := time.Now()
	var inside atomic.Int32
	var won, held, failed atomic.Int64
	last := int64(0)
	for round := range rounds {
		var tried, ended sync.WaitGroup
		tried.Add(contenders)
		for n, l := range all {
			ended.Go(func() {
				ctx, stop := context.WithTimeout(context.Background(), time.Minute)
				defer stop()
				lease, err := l.Acquire(ctx, "", "web", fmt.Sprint(round))
				if err == nil && inside.Add(1) > 1 {
					t.Errorf("round %d: run %d holds the App, and another one does too", round, n)
				}
				tried.Done()
				switch {
				case errors.Is(err, rollout.ErrBusy):
					held.Add(1)
				case err != nil:
					failed.Add(1)
					t.Logf("round %d, run %d: %v", round, n, err)
				default:
					tried.Wait()
					if lease.Term() <= last {
						t.Errorf("round %d: term %d comes after term %d", round, lease.Term(), last)
					}
					last = lease.Term()
					if err := lease.Check(ctx); err != nil {
						t.Errorf("round %d: its holder is told: %v", round, err)
					}
					won.Add(1)
					inside.Add(-1)
					if err := lease.Release(ctx); err != nil {
						t.Errorf("round %d: release: %v", round, err)
					}
				}
			})
		}
		ended.Wait()
	}
	t.Logf("%d rounds of %d runs through %v, with %s down: %d times held by one, %d refused, %d failed, 0 times held by two; %.1f s", rounds, contenders, alive, down, won.Load(), held.Load(), failed.Load(), time.Since(began).Seconds())
	if won.Load() < rounds*9/10 {
		t.Errorf("only %d of %d rounds had a holder", won.Load(), rounds)
	}
	if profiles, _, err := all[0].Profiles(project).GetProfilesAt(t.Context()); err != nil || len(profiles) > 2 {
		t.Errorf("%d profiles are left (%v), want the last term and the default one", len(profiles), err)
	}
}
