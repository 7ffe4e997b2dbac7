package rollout_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

func TestMain(m *testing.M) {
	// The lab's daemon lives on after a test that started it again, and so does the goroutine that reaps it.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/homelabops/terraform-provider-homelabops/internal/lab.reap"))
}

// bubble runs a test on a simulated server and a clock that stands still while anything happens.
func bubble(t *testing.T, replicas int, test func(t *testing.T, s *sim)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, replicas)
		test(t, s)
		for _, b := range s.broken {
			t.Error(b)
		}
	})
}

func TestPromotionComesWhenTheGateHasSeenEnough(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.mustCreate()
		// Fails for 5 s, passes for 3, fails for 2, passes from then on.
		s.health = func(_, version string, age time.Duration) error {
			if version == "1.1.0" && (age < 5*time.Second || age >= 8*time.Second && age < 10*time.Second) {
				return errors.New("500 Internal Server Error")
			}
			return nil
		}
		s.wish.Rollout.MinHealthyTime, s.wish.Rollout.HealthyDeadline = 10*time.Second, time.Minute
		s.wish.Health.Interval = 500 * time.Millisecond
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		green, _ := s.server.Instance("web-g1")
		tags, _, err := app.ParseTags(green.Config)
		if err != nil {
			t.Fatal(err)
		}
		if got := tags.HealthySince.Sub(s.started["web-g1"]); got != 20*time.Second {
			t.Errorf("promoted %s after its start, want exactly 20s: healthy since 10s, for 10s", got)
		}
	})
}

func TestSecondMembersFailureTakesAllMembersBack(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *sim) {
		s.mustCreate()
		s.health = func(instance, _ string, _ time.Duration) error {
			if instance == "web-1-g1" {
				return errors.New("connection refused")
			}
			return nil
		}
		result, err := s.upgrade("1.1.0")
		if !errors.Is(err, rollout.ErrReverted) || !strings.Contains(err.Error(), "web-1-g1") || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("want a reverted roll-out that names web-1-g1 and what was last seen, got: %v", err)
		}
		s.expect("afterwards", "web-0-g0 active 1.0.0 Running; web-1-g0 active 1.0.0 Running; web-2-g0 active 1.0.0 Running → web-0-g0")
		if n := len(result.Observation.Instances()); n != 3 {
			t.Errorf("the result reports %d instances, want 3", n)
		}
	})
}

func TestFailureWhileSettlingReverts(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.mustCreate()
		s.health = func(_, version string, age time.Duration) error {
			if version == "1.1.0" && age > 5*time.Second {
				return errors.New("502 Bad Gateway")
			}
			return nil
		}
		_, err := s.upgrade("1.1.0")
		if !errors.Is(err, rollout.ErrReverted) || !errors.Is(err, rollout.ErrSettle) || !strings.Contains(err.Error(), "502 Bad Gateway") {
			t.Errorf("want a roll-out reverted while settling with its reason, got: %v", err)
		}
		s.expect("afterwards", simOld)
	})
}

func TestCandidateKilledBetweenGateAndSwitchIsNoticed(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.mustCreate()
		looks := 0
		s.health = func(_, version string, _ time.Duration) error {
			if version != "1.1.0" {
				return nil
			}
			if looks++; looks > 3 { // at 0, 2 and 4 s: the gate; then the last look
				return errors.New("connection refused")
			}
			return nil
		}
		_, err := s.upgrade("1.1.0")
		if !errors.Is(err, rollout.ErrReverted) || !strings.Contains(err.Error(), "last look before its promotion") {
			t.Errorf("want a revert because of the last look, got: %v", err)
		}
		s.expect("afterwards", "web-g0 active 1.0.0 Running → web-g0")
	})
}

func TestKilledRunsPromotionIsPartOfTheNextRunsRevert(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.mustCreate()
		s.server.Kill(1, func(r incustest.Request) bool {
			return r.Method == http.MethodPost && strings.Contains(string(r.Body), "web-1-g1")
		}, false)
		if _, err := s.upgrade("1.1.0"); err == nil {
			t.Fatal("the killed run ended well")
		}
		s.server.Revive()
		s.expect("after the kill", "web-0-g0 active 1.0.0 Stopped; web-0-g1 active 1.1.0 Running; web-1-g0 active 1.0.0 Running → web-0-g1")
		s.health = func(instance, _ string, _ time.Duration) error {
			if instance == "web-1-g1" {
				return errors.New("connection refused")
			}
			return nil
		}
		if _, err := s.upgrade("1.1.0"); !errors.Is(err, rollout.ErrReverted) {
			t.Errorf("want a reverted roll-out, got: %v", err)
		}
		s.expect("after the next run", simOld)
	})
}

func TestMissingImageFailsAtOnce(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.mustCreate()
		begin := time.Now()
		_, err := s.upgrade("9.9.9")
		if !errors.Is(err, rollout.ErrImage) || !strings.Contains(err.Error(), `"web/9.9.9"`) {
			t.Errorf("want an error that names the missing image, got: %v", err)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("it took %s of the clock, want no wait", took)
		}
		s.expect("afterwards", simOld)
	})
}

func TestHotChangeMakesNoNewGeneration(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.mustCreate()
		s.wish.App.Limits, s.wish.App.Description = map[string]string{"limits.memory": "256MiB"}, "the web"
		result, err := s.upgrade("1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		if result.Plan.Strategy != rollout.Hot {
			t.Errorf("strategy is %s, want hot", result.Plan.Strategy)
		}
		s.expect("afterwards", simOld)
		for _, i := range s.server.Instances() {
			if i.Config["limits.memory"] != "256MiB" || i.Description != "the web" {
				t.Errorf("%s has memory %q and description %q", i.Name, i.Config["limits.memory"], i.Description)
			}
		}
		s.wish.App.Limits = nil
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Fatal(err)
		}
		for _, i := range s.server.Instances() {
			if value, ok := i.Config["limits.memory"]; ok {
				t.Errorf("%s still has limits.memory %q", i.Name, value)
			}
		}
	})
}

func TestReloadMakesNoNewGenerationAndARefusedOneChangesNothing(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.wish.App.Type, s.wish.App.Params = "reloadable", map[string]any{"config": "one"}
		s.mustCreate()
		s.wish.App.Params = map[string]any{"config": "bad"}
		if _, err := s.upgrade("1.0.0"); err == nil || !strings.Contains(err.Error(), "fake -t: line 1: bad") {
			t.Errorf("want the daemon's own words, got: %v", err)
		}
		if content, _, _ := s.server.File("web-g0", "/etc/fake/fake.conf"); string(content) != "one" {
			t.Errorf("after a refused reload the file says %q, want the old content", content)
		}
		s.wish.App.Params = map[string]any{"config": "two"}
		result, err := s.upgrade("1.0.0")
		if err != nil || result.Plan.Strategy != rollout.Hot {
			t.Fatalf("strategy %s, error %v", result.Plan.Strategy, err)
		}
		if content, _, _ := s.server.File("web-g0", "/etc/fake/fake.conf"); string(content) != "two" {
			t.Errorf("after the reload the file says %q", content)
		}
		s.expect("afterwards", "web-g0 active 1.0.0 Running → web-g0")
	})
}

func TestReloadThatIsNotBorneIsTakenBackEverywhere(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.wish.App.Type, s.wish.App.Params = "reloadable", map[string]any{"config": "one"}
		s.mustCreate()
		former := s.wish
		s.health = func(instance, _ string, _ time.Duration) error {
			if content, _, _ := s.server.File(instance, "/etc/fake/fake.conf"); instance == "web-1-g0" && string(content) == "two" {
				return errors.New("500 Internal Server Error")
			}
			return nil
		}
		s.wish.Former = &former
		s.wish.App.Params = map[string]any{"config": "two"}
		begin := time.Now()
		_, err := s.upgrade("1.0.0")
		if !errors.Is(err, rollout.ErrReverted) || !strings.Contains(err.Error(), "web-1-g0") || !strings.Contains(err.Error(), "500 Internal Server Error") {
			t.Errorf("want a reload that was reverted because of web-1-g0, got: %v", err)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("it took %s of the clock: visitors were let down that long", took)
		}
		for _, name := range []string{"web-0-g0", "web-1-g0"} {
			if content, _, _ := s.server.File(name, "/etc/fake/fake.conf"); string(content) != "one" {
				t.Errorf("%s has the configuration %q, want the former one", name, content)
			}
		}
		s.wish = former
		if result, err := s.upgrade("1.0.0"); err != nil || !result.Plan.Empty() {
			t.Errorf("the former wish plans %v (%v), want nothing", result.Plan.Steps(), err)
		}
	})
}

func TestTwoRunsOfTwoProcessesNeverTakeEachOthersInstances(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		other := *s.Engine
		other.Locks = &rollout.Locks{} // another process
		s.health = func(_, version string, age time.Duration) error {
			if version == "1.0.0" {
				return errors.New("connection refused")
			}
			return nil
		}
		first := make(chan error, 1)
		go func() {
			_, err := s.create()
			first <- err
		}()
		time.Sleep(5 * time.Second) // on the bubble's clock: the first run gates its candidate
		if _, err := other.Apply(t.Context(), s.to("1.1.0"), s.facts(true)); err != nil {
			t.Errorf("the second run: %v", err)
		}
		err := <-first
		// It sees either that its instance is gone, or what has come in its place.
		if err == nil || !strings.Contains(err.Error(), "another run") && !strings.Contains(err.Error(), "somebody else deleted it") {
			t.Errorf("want the first run to end by seeing the other, got: %v", err)
		}
		s.expect("afterwards, the second run's instance is there", "web-g0 active 1.1.0 Running → web-g0")
	})
}

func TestDriftIsHealedAndForeignKeysSurvive(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.wish.App.Limits = map[string]string{"limits.memory": "256MiB"}
		s.mustCreate()
		if err := s.server.Edit("web-0-g0", func(i *incus.Instance) {
			i.Config["limits.memory"] = "1GiB"
			i.Config["user.backup"] = "nightly"
			i.Status, i.StatusCode = incus.StatusStopped, 102
		}); err != nil {
			t.Fatal(err)
		}
		s.server.Remove("web-1-g0")
		s.wish.Known = map[string]int{"0": 0, "1": 0}
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Fatal(err)
		}
		s.expect("healed", "web-0-g0 active 1.0.0 Running; web-1-g1 active 1.0.0 Running → web-0-g0")
		healed, _ := s.server.Instance("web-0-g0")
		if healed.Config["limits.memory"] != "256MiB" || healed.Config["user.backup"] != "nightly" {
			t.Errorf("memory is %q and the foreign key %q", healed.Config["limits.memory"], healed.Config["user.backup"])
		}
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		if next, _ := s.server.Instance("web-0-g1"); next.Config["user.backup"] != "nightly" {
			t.Errorf("the foreign key did not go on to the next generation")
		}
	})
}

func TestEndpointFollowsWhenItsMemberIsStoppedByHand(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.mustCreate()
		if err := s.server.Edit("web-0-g0", func(i *incus.Instance) { i.Status, i.StatusCode = incus.StatusStopped, 102 }); err != nil {
			t.Fatal(err)
		}
		movedFirst := false
		s.health = func(string, string, time.Duration) error {
			forward, _ := s.server.Forward(incustest.DefaultNetwork, listen)
			movedFirst = movedFirst || forward.Ports[0].TargetAddress == s.server.Address("web-1-g0")
			return nil
		}
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Fatal(err)
		}
		if !movedFirst {
			t.Error("the endpoint was not led to the running member while the other was started")
		}
		s.expect("afterwards", simOld)
	})
}

func TestScaleOutAndIn(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.mustCreate()
		s.wish.Replicas.Count = 3
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Fatal(err)
		}
		s.expect("out", "web-1-g0 active 1.0.0 Running; web-2-g0 active 1.0.0 Running; web-g0 active 1.0.0 Running → web-g0")
		s.wish.Replicas.Count = 1
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Fatal(err)
		}
		s.expect("in", "web-g0 active 1.0.0 Running → web-g0")
	})
}

func TestEndpointMovesToAnotherAddress(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.mustCreate()
		s.wish.Endpoint = &rollout.Endpoint{ListenAddress: "10.99.1.2", Ports: s.wish.Endpoint.Ports}
		if _, err := s.upgrade("1.0.0"); err != nil {
			t.Fatal(err)
		}
		if _, still := s.server.Forward(incustest.DefaultNetwork, listen); still {
			t.Error("the former endpoint is still there")
		}
		if _, there := s.server.Forward(incustest.DefaultNetwork, "10.99.1.2"); !there {
			t.Error("the new endpoint is not there")
		}
	})
}

func TestAFormerEndpointLeadsToRunningMembersUntilTheEnd(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.mustCreate()
		s.wish.Endpoint = nil
		s.wish.App.Floating = &renderer.Floating{Address: listen + "/24", Interface: "eth0", Router: 51}
		healthy := s.health
		s.health = func(instance, version string, age time.Duration) error {
			if instance == "web-1-g1" {
				return errors.New("not well")
			}
			return healthy(instance, version, age)
		}
		if _, err := s.upgrade("1.1.0"); !errors.Is(err, rollout.ErrReverted) { // after the first member's promotion
			t.Errorf("%v", err)
		}
		s.health = healthy
		if forward, ok := s.server.Forward(incustest.DefaultNetwork, listen); !ok || forward.Ports[0].TargetAddress != s.server.Address("web-0-g0") {
			t.Errorf("after the revert the former endpoint is %+v", forward)
		}
		if _, err := s.upgrade("1.1.0"); err != nil { // the sim sees to it that nothing is stopped to which it leads
			t.Fatal(err)
		}
		if _, still := s.server.Forward(incustest.DefaultNetwork, listen); still {
			t.Error("the former endpoint is still there")
		}
	})
}

func TestForeignThingsAreLeftAlone(t *testing.T) {
	ctx := context.Background()
	for name, tc := range map[string]struct {
		prepare func(s *sim) error
		kind    error
		text    string
	}{
		"an instance of our name without our tags": {func(s *sim) error {
			op, err := s.Incus.CreateInstance(ctx, incus.InstancesPost{Name: "web-0-g0", Source: incus.InstanceSource{Type: "image", Alias: "web/1.0.0"}})
			if err != nil {
				return err
			}
			return op.Wait(ctx)
		}, rollout.ErrExists, `instance "web-0-g0" exists and does not carry the tags of App "web"`},
		"an App of our name": {func(s *sim) error {
			_, err := s.create()
			return err
		}, rollout.ErrExists, "an App of this name is already there: web-0-g0, web-1-g0"},
		"somebody's forward on our address": {func(s *sim) error {
			return s.Incus.CreateNetworkForward(ctx, incustest.DefaultNetwork, incus.NetworkForward{ListenAddress: listen})
		}, rollout.ErrRefused, "the listen address 10.99.1.1 on network \"incusbr0\" is somebody else's"},
		"the network's broadcast address": {func(s *sim) error {
			s.wish.Endpoint.ListenAddress = "10.99.0.255"
			return nil
		}, rollout.ErrRefused, "broadcast address of network"},
		"a network that is not there": {func(s *sim) error {
			s.wish.App.Network = "home-lan"
			return nil
		}, rollout.ErrRefused, `network "home-lan" does not exist`},
		"a pool that is not there": {func(s *sim) error {
			s.wish.App.StoragePool = "fast"
			return nil
		}, rollout.ErrRefused, `storage pool "fast" does not exist`},
		"a profile that is not there": {func(s *sim) error {
			s.wish.App.Profiles = []string{"default", "web"}
			return nil
		}, rollout.ErrRefused, `profile "web" does not exist`},
		"a plan that is out of date": {func(s *sim) error {
			s.wish.Expect = map[string]string{"0": "web-0-g4"}
			return nil
		}, rollout.ErrStale, `the plan makes member "0" instance "web-0-g4"`},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, s *sim) {
				if err := tc.prepare(s); err != nil {
					t.Fatal(err)
				}
				before := s.server.Count(incustest.Mutating)
				result, err := s.create()
				if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("want %q of kind %q, got: %v", tc.text, tc.kind, err)
				}
				if result.Begun {
					t.Error("it says that it has begun")
				}
				if n := s.server.Count(incustest.Mutating) - before; n != 0 {
					t.Errorf("%d calls changed something, want none", n)
				}
			})
		})
	}
}

func TestGateThatTimesOutSaysWhatItSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 1, incustest.WithNetwork("silent", "bridge", ""))
		s.wish.Endpoint, s.wish.App.Network = nil, "silent"
		s.health = func(string, string, time.Duration) error { return errors.New("no address to look at") }
		begin := time.Now()
		_, err := s.create()
		if !errors.Is(err, rollout.ErrGate) {
			t.Fatalf("want a gate that timed out, got: %v", err)
		}
		for _, part := range []string{"gate web-g0", "within 20s", "no address to look at", "instance web-g0 is running", "eth0", "Everything that was created has been removed."} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not say %q: %v", part, err)
			}
		}
		if took := time.Since(begin); took < 20*time.Second || took > 40*time.Second {
			t.Errorf("it took %s of the clock, want about 20s", took)
		}
		s.expect("afterwards", " → nothing")
	})
}

func TestFailedCreationIsKeptWhenAskedFor(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.wish.OnFailure = rollout.Keep
		s.wish.App.Image, s.wish.App.Version = "web/2.0.0", "2.0.0"
		result, err := s.create()
		if !errors.Is(err, rollout.ErrGate) || len(result.Observation.Instances()) != 1 {
			t.Errorf("want one instance kept and reported, got %d with: %v", len(result.Observation.Instances()), err)
		}
		s.expect("afterwards", "web-g0 candidate 2.0.0 Running → nothing")
	})
}

func TestTwoRunsOnOneApp(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		release := s.server.Hold(incustest.To("POST", "/1.0/instances"))
		first := make(chan error, 1)
		go func() {
			_, err := s.create()
			first <- err
		}()
		synctest.Wait()
		if _, err := s.create(); !errors.Is(err, rollout.ErrBusy) {
			t.Errorf("want the second run refused at once, got: %v", err)
		}
		release()
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

func TestProtectedInstancesAreNotStoppedBeforeTheRefusal(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.mustCreate()
		if err := s.server.Edit("web-1-g0", func(i *incus.Instance) { i.Config["security.protection.delete"] = "true" }); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Destroy(t.Context(), "web", rollout.Observation{}); !errors.Is(err, rollout.ErrRefused) {
			t.Errorf("want a refusal, got: %v", err)
		}
		s.expect("afterwards", simOld)
	})
}
