package rollout_test

import (
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// toPool lets the App's volume be in another pool, or back where it was.
func (s *sim) toPool(moved bool) {
	pool := incustest.DefaultPool
	if moved {
		pool = "fast"
	}
	s.wish.App.Volumes[0].Pool = pool
}

// toNode pins the machine to another node, or back to the one where it was.
func (s *sim) toNode(moved bool) {
	was := s.wish.Node
	s.wish.Node = "m1"
	if moved {
		s.wish.Node = "m2"
	}
	s.wish.Relocate = was != "" && was != s.wish.Node
}

// relocation is an update in place that moves the data.
type relocation struct {
	name     string
	prepare  func(s *sim)
	to       func(s *sim, moved bool)
	old, new string
}

func (k relocation) ready(s *sim) {
	k.prepare(s)
	k.to(s, false)
	s.mustCreate()
	s.fill("precious")
}

func (k relocation) run(version string) func(s *sim) (rollout.Observation, error) {
	return func(s *sim) (rollout.Observation, error) {
		k.to(s, true)
		result, err := s.upgrade(version)
		return result.Observation, err
	}
}

func (k relocation) again(version string, moved bool) func(s *sim, _ bool) error {
	return func(s *sim, _ bool) error {
		k.to(s, moved)
		s.wish.Relocate = true // as long as the change isn't in state
		_, err := s.upgrade(version)
		return err
	}
}

func (k relocation) scenarios() []scenario {
	return []scenario{
		{k.name, k.ready, k.run("1.1.0"), k.again("1.1.0", true), k.new},
		{k.name + ", taken back by the next apply", k.ready, k.run("1.1.0"), k.again("1.0.0", false), ""},
	}
}

// TestEveryCallOfAMoveToAnotherPoolMayFail is TestEveryCallMayFail for updates that move data: it has to be there at the end,
// once.
func TestEveryCallOfAMoveToAnotherPoolMayFail(t *testing.T) {
	k := relocation{"App", (*sim).exclusive, (*sim).toPool, "web-g0 active 1.0.0 Running → nothing", "web-g1 active 1.1.0 Running → nothing"}
	everyCall(t, append(k.scenarios(),
		scenario{k.name + " and a version that spoils the data, then as it was", k.ready, k.run("2.0.0"), k.again("1.0.0", false), k.old},
	), incustest.WithPool("fast", "btrfs"))
}

// TestEveryCallOfAMoveToAnotherNodeMayFail is the same for a machine on a cluster.
func TestEveryCallOfAMoveToAnotherNodeMayFail(t *testing.T) {
	k := relocation{"machine", (*sim).exclusiveMachine, (*sim).toNode, "web active 1.0.0 Running → nothing", "web active 1.1.0 Running → nothing"}
	everyCall(t, append(k.scenarios(),
		scenario{k.name + " and a version that spoils the data, then there with a good one", k.ready, k.run("2.0.0"), k.again("1.1.0", true), k.new},
	), incustest.WithMembers("m1", "m2"))
}
