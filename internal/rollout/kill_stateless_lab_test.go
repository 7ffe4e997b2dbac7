//go:build lab

package rollout_test

import (
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// served is an App of two members that serve at an endpoint.
func served(t *testing.T, _ int) *patient {
	l := lab.Attach(t)
	p := patientOn(t, newBench(t, l, 2), l.Socket(), 2)
	p.loaded, p.guarded = true, true
	p.make(t)
	return p
}

func TestLabKilledBlueGreenUpgradeConverges(t *testing.T) {
	killTable{strategy: "blue-green", lanes: 3, usual: []int{9, 14}, open: served}.run(t)
}

// TestLabKilledRevertConverges kills runs that go back: those of a version that fails at its gate, and those of one that
// fails when it has been promoted. Every other time the next run takes a good version instead of the former one.
func TestLabKilledRevertConverges(t *testing.T) {
	for version, k := range map[string]killTable{
		"2.0.0-bad":  {strategy: "revert-of-candidate", lanes: 1, usual: []int{9}},
		"2.0.2-late": {strategy: "revert-of-promoted", lanes: 2, usual: []int{15}},
	} {
		t.Run(version, func(t *testing.T) {
			k.open = func(t *testing.T, lane int) *patient {
				p := served(t, lane)
				p.fails = true
				p.loaded = version == "2.0.0-bad" // the other one, once promoted, answers a few with its failure
				p.next = func(t *testing.T, point int) (killed, then work) {
					killed, then = p.apply(t, version), p.apply(t, p.at)
					if version == "2.0.0-bad" {
						killed.Wish.Rollout.HealthyDeadline = 2 * time.Second
					} else {
						killed.Wish.Rollout.SettleTime = 8 * time.Second
					}
					if point%4 > 1 {
						then = p.apply(t, other(p.at))
					}
					return killed, then
				}
				return p
			}
			k.run(t)
		})
	}
}

// TestLabKilledDestroyIsBroughtToItsEnd kills the removal of an App. Every other time it is wanted again.
func TestLabKilledDestroyIsBroughtToItsEnd(t *testing.T) {
	killTable{strategy: "destroy", lanes: 1, usual: []int{7, 10}, open: func(t *testing.T, lane int) *patient {
		p := served(t, lane)
		p.loaded, p.guarded = false, false
		p.next = func(t *testing.T, point int) (killed, then work) {
			if p.at == "" {
				p.make(t)
			}
			killed, then = p.apply(t, p.at), p.apply(t, p.at)
			killed.Destroy = true
			if then.Wish.Known = map[string]int{"0": 0, "1": 0}; point%2 == 0 {
				then = killed
			}
			return killed, then
		}
		return p
	}}.run(t)
}

// TestLabKilledCreationConverges kills the creation of an App, of which nothing is in state then.
func TestLabKilledCreationConverges(t *testing.T) {
	killTable{strategy: "create", lanes: 1, usual: []int{9}, open: func(t *testing.T, _ int) *patient {
		l := lab.Attach(t)
		p := patientOn(t, newBench(t, l, 2), l.Socket(), 2)
		p.next = func(t *testing.T, _ int) (killed, then work) {
			if p.at != "" {
				if _, err := p.Destroy(t.Context(), p.wish.App.Name, rollout.Observation{}); err != nil {
					t.Fatal(err)
				}
				p.at = ""
			}
			w := p.apply(t, "1.0.0")
			return w, w
		}
		return p
	}}.run(t)
}

// TestLabClusterKilledPerNodeUpgradeConverges is for an App that has a member on each node, which all move at the same time.
func TestLabClusterKilledPerNodeUpgradeConverges(t *testing.T) {
	killTable{strategy: "per-node", lanes: 3, usual: []int{15}, open: func(t *testing.T, _ int) *patient {
		c := lab.AttachCluster(t)
		b := clusterBench(t, c)
		b.wish.App.Volumes = nil
		b.wish.Replicas, b.wish.Nodes = app.Replicas{PerNode: true}, []string{"m1", "m2", "m3"}
		p := patientOn(t, b, c.Socket("m1"), 3)
		p.guarded = true
		p.make(t)
		return p
	}}.run(t)
}
