package etcd

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

func TestAnUnsafeStepIsRefusedWithItsSum(t *testing.T) {
	member := func(key string) func(s *stage) renderer.Peer {
		return func(*stage) renderer.Peer { return renderer.Peer{Member: key} }
	}
	peer := func(n int) func(s *stage) renderer.Peer { return func(s *stage) renderer.Peer { return s.peers[n] } }
	dies := func(all ...int) func(s *stage) {
		return func(s *stage) {
			for _, n := range all {
				s.dies(s.peers[n])
			}
		}
	}
	for name, c := range map[string]struct {
		members int
		before  func(s *stage)
		step    renderer.ClusterStep
		self    func(s *stage) renderer.Peer
		words   []string // none where it is safe
	}{
		"add":    {3, nil, renderer.StepAdd, member("3"), nil},
		"remove": {3, nil, renderer.StepRemove, peer(0), nil},
		"add, one dead": {3, dies(2), renderer.StepAdd, member("3"), []string{"add a member to etcd App dcs (member \"3\"): the step is not safe: 3 voters, 2 healthy, quorum 2 (dcs-2-g0 doesn't answer at http://10.0.2.10:2379: ",
			"; with one more voter quorum is 3, and if that one fails 2 of 4 are healthy: etcd adds none while a voter can't be reached", "connection refused"}},
		"replace another, one dead": {3, dies(2), renderer.StepReplace, peer(1), []string{"replace an instance of etcd App dcs", "3 voters, 2 healthy", "with one more voter quorum is 3"}},
		"replace the dead one":      {3, dies(2), renderer.StepReplace, peer(2), nil},
		"repair, another dead too": {5, dies(2, 3), renderer.StepRepair, member("3"), []string{"5 voters, 3 healthy, quorum 3",
			"; with the dead taken out 4 voters, 3 healthy; with one more voter quorum is 3, and if that one fails 3 of 5"}},
		"two dead":                   {3, dies(1, 2), renderer.StepReplace, peer(0), []string{"the cluster has no leader: 3 voters, 1 healthy, quorum 2", "dcs-1-g0 doesn't answer", "dcs-2-g0 doesn't answer"}},
		"repair, two dead":           {3, dies(1, 2), renderer.StepRepair, member("2"), []string{"3 voters, 1 healthy, quorum 2 (dcs-1-g0 doesn't answer"}},
		"remove healthy, one dead":   {3, dies(2), renderer.StepRemove, peer(1), []string{"take a member out of etcd App dcs", "without dcs-1-g0 1 of 2 would be healthy, and quorum is 2"}},
		"remove the dead one":        {3, dies(2), renderer.StepRemove, peer(2), nil},
		"the only one dead":          {1, dies(0), renderer.StepReplace, peer(0), []string{"no voter among the App's instances answers: dcs-0-g0 doesn't answer"}},
		"replace, a member too many": {3, extra("dcs-7-g0"), renderer.StepReplace, peer(0), []string{"cluster and App differ: the cluster has 4 members (dcs-0-g0, dcs-1-g0, dcs-2-g0, dcs-7-g0), the App 3 instances (dcs-0-g0, dcs-1-g0, dcs-2-g0)", "dcs-7-g0 is no instance of the App", "etcdctl member remove c0ffee"}},
		"repair with one of ours":    {3, extra("dcs-2-g7"), renderer.StepRepair, member("2"), nil},
		"repair with a foreign one":  {3, extra("backup"), renderer.StepRepair, member("2"), []string{"backup is no instance of the App"}},
		"remove, a member too many":  {3, extra("dcs-7-g0"), renderer.StepRemove, peer(0), []string{"cluster and App differ"}},
		"add, an instance too many":  {3, lost("9"), renderer.StepAdd, member("3"), []string{"the cluster has 3 members", "the App 4 instances", "dcs-9-g0 is not in the cluster: delete the instance"}},
		"its own instance too many":  {3, lost("9"), renderer.StepRepair, member("9"), nil},
		"no space": {3, func(s *stage) { s.alarms = []string{"memberID:77 alarm:NOSPACE "} }, renderer.StepReplace, peer(0),
			[]string{"the alarm NOSPACE", "quota_backend_bytes", "etcdctl alarm disarm (memberID:77 alarm:NOSPACE)"}},
		"corrupt":     {3, func(s *stage) { s.alarms = []string{"memberID:77 alarm:CORRUPT "} }, renderer.StepRemove, peer(0), []string{"the alarm CORRUPT"}},
		"not running": {3, func(s *stage) { s.stops(s.peers[2]) }, renderer.StepAdd, member("3"), []string{"dcs-2-g0 doesn't run, or its node can't be reached"}},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, c.members, func(t *testing.T, s *stage) {
				if c.before != nil {
					c.before(s)
				}
				err := s.preflight(c.step, c.self(s))
				if c.words == nil {
					s.must(err)
					return
				}
				s.refused(err, c.words...)
				if !errors.Is(err, ErrUnsafe) {
					t.Error("it is no ErrUnsafe")
				}
				s.made()
			})
		})
	}
}

// extra is a voter without an instance.
func extra(name string) func(s *stage) {
	return func(s *stage) {
		s.set(func() {
			s.members = append(s.members, &pb.Member{ID: 0xc0ffee, Name: name, PeerURLs: []string{"http://10.0.9.9:2380"}})
		})
	}
}

// lost is a promoted instance that is not in the cluster.
func lost(member string) func(s *stage) {
	return func(s *stage) { s.change(s.create(member, 0), func(p *renderer.Peer) { p.Active = true }) }
}

func TestAClusterMayTakeAMomentToBeSteady(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		s.dies(s.peers[0])
		s.dies(s.peers[1])
		go func() {
			time.Sleep(6 * time.Second)
			s.set(func() {
				for _, h := range s.hosts {
					h.down = false
				}
			})
		}()
		s.must(s.preflight(renderer.StepReplace, s.peers[2]))
	})
}

func TestNothingIsAskedBeforeThereIsACluster(t *testing.T) {
	c := renderer.Cluster{App: etcdApp(t, nil), Forming: true}
	for _, step := range []renderer.ClusterStep{renderer.StepAdd, renderer.StepRemove} {
		if err := (Renderer{}).Preflight(t.Context(), c, step); err != nil {
			t.Error(err)
		}
	}
	c.Self = renderer.Peer{Target: renderer.Target{Instance: "dcs-0-g0"}}
	if err := (Renderer{}).Leave(t.Context(), c); err != nil {
		t.Error(err)
	}
}

func TestAnInstanceStaysWhereTheClusterWouldNotBearItsLoss(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		s.dies(s.peers[2])
		err := s.leave(s.peers[1])
		s.refused(err, "take dcs-1-g0 out of etcd App dcs: the step is not safe: 3 voters, 2 healthy", "without dcs-1-g0 1 of 2 would be healthy, and quorum is 2", "tried for 30s")
		s.dies(s.peers[0])
		s.refused(s.leave(s.peers[2]), "3 voters, 1 healthy, quorum 2", "without a leader nothing can be taken out")
		s.made()
	})
}

func TestAHangingChangeEnds(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		green := s.create("1", 1)
		s.must(s.join(green))
		s.lose, s.slow = s.asked+1, true
		s.hook = nil
		begin := time.Now()
		s.must(s.leave(green)) // its answer never comes, and the next look shows that it was made
		if took := time.Since(begin); took < changeWithin || took > 2*changeWithin {
			t.Errorf("it took %s", took)
		}
	})
}

func TestWhoHasLeastToHandOverMovesFirst(t *testing.T) {
	on(t, 5, func(t *testing.T, s *stage) {
		keys := []string{"0", "1", "2", "3", "4"}
		order := func() string {
			sorted, err := Renderer{}.Order(t.Context(), s.of(s.peers[0]), keys)
			s.must(err)
			return strings.Join(sorted, " ")
		}
		if got := order(); got != "1 2 3 4 0" {
			t.Errorf("the leader is not last: %s", got)
		}
		s.dies(s.peers[3])
		s.create("2", 1)
		if got := order(); got != "2 3 1 4 0" {
			t.Errorf("who has begun, and who is dead, is not first: %s", got)
		}
		for n := range 5 {
			s.dies(s.peers[n])
		}
		if got := order(); got != "2 0 1 3 4" {
			t.Errorf("where nobody answers: %s", got)
		}
		if !slices.Equal(keys, []string{"0", "1", "2", "3", "4"}) {
			t.Error("the argument was changed")
		}
	})
}
