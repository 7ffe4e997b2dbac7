package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
)

// followedVotes runs a test on a simulated cluster that two proxies lead to.
func followedVotes(t *testing.T, members int, test func(t *testing.T, s *sim)) {
	t.Helper()
	votes(t, members, func(t *testing.T, s *sim) {
		s.quorum.leader = "web-2-g0"
		s.mustProxy(s.proxy("proxy", "web"))
		s.checkFollowers("before")
		test(t, s)
		s.checkFollowers("afterwards")
	})
}

func TestMembersOfAClusterAreFollowedOneByOne(t *testing.T) {
	followedVotes(t, 3, func(t *testing.T, s *sim) {
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.expect("after the upgrade", clusterNew)
	})
}

func TestClusterThatStopsHalfWayIsFollowedAsItIs(t *testing.T) {
	for _, verb := range []string{"promote", "join"} {
		t.Run(verb, func(t *testing.T) {
			followedVotes(t, 3, func(t *testing.T, s *sim) {
				s.quorum.fail = func(at, instance string) error {
					if at == verb && instance == "web-1-g1" {
						return errors.New("not in sync")
					}
					return nil
				}
				if _, err := s.upgrade("1.1.0"); err == nil {
					t.Error("the upgrade ended well")
				}
				s.expect("afterwards", "web-0-g1 active 1.1.0 Running; web-1-g0 active 1.0.0 Running; web-2-g0 active 1.0.0 Running → nothing")
			})
		})
	}
}

func TestMembersThatLeaveAClusterAreLeftAloneBefore(t *testing.T) {
	followedVotes(t, 5, func(t *testing.T, s *sim) {
		s.scaled(3)
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Fatal(err)
		}
		s.expect("afterwards", clusterOld)
	})
}

// Where one member only has the authority, others reach it at every moment of the hand-over.
func TestBothAreLedToWhileTheAuthorityIsHandedOver(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.quorum.class = app.Asymmetric
		s.clustered(2)
		s.mustCreate()
		s.quorum.guard, s.quorum.leader = true, "web-0-g0"
		s.mustProxy(s.proxy("proxy", "web"))
		var seen []string
		s.quorum.watch = func(verb, instance string) {
			for _, proxy := range s.serving() {
				seen = append(seen, fmt.Sprintf("%s %s: %v", verb, instance, s.leadsTo(proxy)))
			}
		}
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"promote web-1-g1: [web-0-g0 web-1-g0 web-1-g1]", "promote web-1-g1: [web-0-g0 web-1-g0 web-1-g1]",
			"promote web-0-g1: [web-0-g0 web-0-g1 web-1-g1]", "promote web-0-g1: [web-0-g0 web-0-g1 web-1-g1]",
		}
		if !slices.Equal(seen, want) {
			t.Errorf("at the hand-overs proxies led to\n%q, want\n%q", seen, want)
		}
		s.checkFollowers("afterwards")
	})
}
