package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// leases are those of one process.
func (s *sim) leases(holder string) *rollout.Leases {
	client := s.server.Client(s.t)
	return &rollout.Leases{
		Profiles:      rollout.ProfilesOf(client),
		CreateProject: client.CreateProject, Holder: holder,
	}
}

// acquired takes the lease of App web, and keeps it.
func acquired(t *testing.T, l *rollout.Leases, run string) *rollout.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), "", "web", run)
	if err != nil {
		t.Fatal(err)
	}
	lease.Keep(t.Context(), func(error) {})
	return lease
}

func TestASecondRunIsToldWhoHasTheAppAndUntilWhen(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		first := acquired(t, s.leases("ann@desk"), "1")
		time.Sleep(3 * time.Minute) // renewed all the while
		_, err := s.leases("bob@laptop").Acquire(t.Context(), "", "web", "2")
		if !errors.Is(err, rollout.ErrBusy) {
			t.Fatalf("the second run ended with %v, want that the lease is held", err)
		}
		for _, want := range []string{"ann@desk, run 1 works on it", "(3m ago)", "its lease runs out at ", "Nothing was changed"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := acquired(t, s.leases("bob@laptop"), "2")
		if second.Term() != first.Term()+1 {
			t.Errorf("the term after %d is %d", first.Term(), second.Term())
		}
		if got := s.server.Profiles(rollout.DefaultCoordination); fmt.Sprint(got) != "[default lease-web-2]" {
			t.Errorf("profiles %v, want the last term only", got)
		}
		_ = second.Forget(t.Context())
		if got := s.server.Profiles(rollout.DefaultCoordination); fmt.Sprint(got) != "[default]" {
			t.Errorf("profiles %v after the App is gone, want no term", got)
		}
	})
}

func TestADeadHoldersLeaseIsTakenAfterItsExpiryAndTheHolderStopsShouldItWake(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		dead, err := s.leases("ann@desk").Acquire(t.Context(), "", "web", "1") // and never kept
		if err != nil {
			t.Fatal(err)
		}
		waits := s.leases("bob@laptop")
		waits.Wait = 2 * time.Minute
		began := time.Now()
		next := acquired(t, waits, "2")
		if waited := time.Since(began); waited < rollout.DefaultLeaseTime || waited > rollout.DefaultLeaseTime+5*time.Second {
			t.Errorf("waited %s for a lease of %s", waited, rollout.DefaultLeaseTime)
		}
		if err := dead.Check(t.Context()); !errors.Is(err, rollout.ErrLeaseLost) {
			t.Errorf("the old holder is told %v, want that its lease is lost", err)
		}
		if err := next.Check(t.Context()); err != nil {
			t.Errorf("the new holder is told %v", err)
		}
		_ = next.Release(t.Context())
	})
}

// ahead is a server whose clock is ahead of the others'.
type ahead struct {
	rollout.Profiles
	by time.Duration
}

func (a ahead) GetProfilesAt(ctx context.Context) ([]incus.Profile, time.Time, error) {
	all, now, err := a.Profiles.GetProfilesAt(ctx)
	return all, now.Add(a.by), err
}

// throughAhead are leases of a process whose server's clock is ahead.
func (s *sim) throughAhead(holder string, by time.Duration) *rollout.Leases {
	l := s.leases(holder)
	profiles := l.Profiles
	l.Profiles = func(project string) rollout.Profiles { return ahead{profiles(project), by} }
	return l
}

func TestALiveLeaseIsNotTakenByAClockThatIsAhead(t *testing.T) {
	for _, by := range []time.Duration{-2 * time.Minute, 70 * time.Second, 2 * time.Minute} {
		bubble(t, 2, func(t *testing.T, s *sim) {
			first := acquired(t, s.leases("ann@desk"), "1")
			time.Sleep(30 * time.Second)
			began := time.Now()
			_, err := s.throughAhead("bob@laptop", by).Acquire(t.Context(), "", "web", "2")
			if !errors.Is(err, rollout.ErrBusy) || !strings.Contains(err.Error(), "ann@desk, run 1 works on it") {
				t.Errorf("%s ahead: ended with %v, want that the lease is held", by, err)
			}
			if by > 0 && !strings.Contains(err.Error(), "differ") {
				t.Errorf("%s ahead: the error does not say that the clocks differ: %v", by, err)
			}
			if took := time.Since(began); took > rollout.DefaultLeaseTime/2 {
				t.Errorf("%s ahead: it took %s to find that out", by, took)
			}
			if err := first.Check(t.Context()); err != nil {
				t.Errorf("%s ahead: the holder is told %v", by, err)
			}
			_ = first.Release(t.Context())
			second := acquired(t, s.throughAhead("bob@laptop", by), "2")
			_ = second.Release(t.Context())
		})
	}
}

func TestADeadHoldersLeaseIsTakenByAClockThatIsAhead(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		if _, err := s.leases("ann@desk").Acquire(t.Context(), "", "web", "1"); err != nil { // and never kept
			t.Fatal(err)
		}
		began := time.Now()
		next := acquired(t, s.throughAhead("bob@laptop", 2*time.Minute), "2")
		if took := time.Since(began); took < rollout.DefaultLeaseTime/3 || took > rollout.DefaultLeaseTime/2 {
			t.Errorf("it was watched for %s, want as long as a renewal takes to come", took)
		}
		_ = next.Release(t.Context())
	})
}

func TestALeaseThatRanOutLongAgoIsTakenAtOnce(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		if _, err := s.leases("ann@desk").Acquire(t.Context(), "", "web", "1"); err != nil { // and never kept
			t.Fatal(err)
		}
		time.Sleep(15 * time.Minute)
		began := time.Now()
		next := acquired(t, s.leases("bob@laptop"), "2")
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
		_ = next.Release(t.Context())
	})
}

func TestARunThatLosesItsLeaseWritesNothingMore(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.Leases = s.leases("ann@desk")
		s.mustCreate()
		writes := -1
		healthy := s.health
		s.health = func(instance, version string, age time.Duration) error {
			if version == "1.1.0" && writes < 0 {
				// Somebody edits the chain: the next term is another's.
				profile := incus.Profile{Name: "lease-web-3", Config: map[string]string{"user.homelab-ops.holder": "bob@laptop"}}
				if err := s.server.Client(t).UseProject(rollout.DefaultCoordination).CreateProfile(t.Context(), profile); err != nil {
					t.Error(err)
				}
				writes = 0
			}
			if writes >= 0 {
				return errors.New("not yet")
			}
			return healthy(instance, version, age)
		}
		w := s.to("1.1.0")
		w.Rollout.HealthyDeadline = 5 * time.Minute
		before := s.server.Count(incustest.Any)
		_, err := s.Apply(t.Context(), w, s.facts(false))
		if !errors.Is(err, rollout.ErrLeaseLost) || !strings.Contains(err.Error(), "bob@laptop has taken the App over with term 3") {
			t.Fatalf("ended with %v, want that the lease is lost, and to whom", err)
		}
		s.expect("after the loss", "web-0-g0 active 1.0.0 Running; web-0-g1 candidate 1.1.0 Running; web-1-g0 active 1.0.0 Running → web-0-g0")
		if i, _ := s.server.Instance("web-0-g1"); i.Config["user.homelab-ops.term"] != "2" {
			t.Errorf("the candidate has the term %q, want that of the run that made it, 2", i.Config["user.homelab-ops.term"])
		}
		made := 0 // terms: the run's own, then the other's
		for _, r := range s.server.Requests()[before:] {
			if r.Method == http.MethodPost && strings.HasSuffix(r.Path, "/profiles") && r.Query.Get("project") == rollout.DefaultCoordination {
				made++
			}
			if made > 1 && r.Mutating() && strings.Contains(r.Path, "/instances") {
				t.Errorf("%s %s came after another run had taken the App", r.Method, r.Path)
			}
		}
	})
}

func TestAClientThatMayNotSeeTheCoordinationProjectKeepsItsLeasesInItsOwn(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		l := s.leases("ann@desk")
		forbidden := func(project string) bool { return project == rollout.DefaultCoordination }
		all := l.Profiles
		l.Profiles = func(project string) rollout.Profiles {
			if forbidden(project) {
				return refused{}
			}
			return all(project)
		}
		lease := acquired(t, l, "1")
		if got := s.server.Profiles("default"); fmt.Sprint(got) != "[default lease-web-1]" {
			t.Errorf("profiles of the App's own project: %v", got)
		}
		_ = lease.Release(t.Context())
	})
}

// refused is a project that may not be seen.
type refused struct{ rollout.Profiles }

func (refused) GetProfilesAt(context.Context) ([]incus.Profile, time.Time, error) {
	return nil, time.Time{}, incus.ErrForbidden
}

// shelf is where many runs keep their leases. Calls take their time, and answers get lost.
type shelf struct {
	mu       sync.Mutex
	profiles map[string]incus.Profile
	random   *rand.Rand
}

func (s *shelf) dawdle(most time.Duration) { time.Sleep(time.Duration(s.roll(int(most)))) }

func (s *shelf) roll(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// call does one thing to the profiles, late, and sometimes without an answer.
func (s *shelf) call(do func() error) error {
	s.dawdle(2 * time.Second)
	if s.roll(20) == 0 {
		return fmt.Errorf("lost: %w", incus.ErrOutcomeUnknown)
	}
	s.mu.Lock()
	err := do()
	s.mu.Unlock()
	s.dawdle(2 * time.Second)
	if s.roll(20) == 0 {
		return fmt.Errorf("lost: %w", incus.ErrOutcomeUnknown)
	}
	return err
}

func (s *shelf) GetProfilesAt(context.Context) (all []incus.Profile, now time.Time, err error) {
	err = s.call(func() error {
		for _, p := range s.profiles {
			all = append(all, p)
		}
		now = time.Now().Truncate(time.Second)
		return nil
	})
	return all, now, err
}

func (s *shelf) GetProfile(_ context.Context, name string) (found *incus.Profile, etag string, err error) {
	err = s.call(func() error {
		p, there := s.profiles[name]
		if !there {
			return incus.ErrNotFound
		}
		found, etag = &p, fmt.Sprint(p.Config)
		return nil
	})
	return found, etag, err
}

func (s *shelf) CreateProfile(_ context.Context, p incus.Profile) error {
	return s.call(func() error {
		if _, taken := s.profiles[p.Name]; taken {
			return incus.ErrAlreadyExists
		}
		s.profiles[p.Name] = p
		return nil
	})
}

func (s *shelf) UpdateProfile(_ context.Context, name string, p incus.Profile, etag string) error {
	return s.call(func() error {
		if _, there := s.profiles[name]; !there {
			return incus.ErrNotFound
		}
		if etag != fmt.Sprint(s.profiles[name].Config) {
			return incus.ErrPrecondition
		}
		p.Name = name
		s.profiles[name] = p
		return nil
	})
}

func (s *shelf) DeleteProfile(_ context.Context, name string) error {
	return s.call(func() error {
		if _, there := s.profiles[name]; !there {
			return incus.ErrNotFound
		}
		delete(s.profiles, name)
		return nil
	})
}

// doomed is a shelf as one process sees it: nothing of what it does takes effect once that is dead.
type doomed struct {
	*shelf
	dead *atomic.Bool
}

func (m doomed) DeleteProfile(ctx context.Context, name string) error {
	if m.dead.Load() {
		return incus.ErrUnreachable
	}
	return m.shelf.DeleteProfile(ctx, name)
}

func (m doomed) UpdateProfile(ctx context.Context, name string, p incus.Profile, etag string) error {
	if m.dead.Load() {
		return incus.ErrUnreachable
	}
	return m.shelf.UpdateProfile(ctx, name, p, etag)
}

// skewed is a clock that is wrong by so much.
type skewed struct {
	rollout.SystemClock
	by time.Duration
}

func (c skewed) Now() time.Time { return time.Now().Add(c.by) }

// TestNoTwoRunsEverHoldAnApp lets eight runs contend whose calls are slow and get lost, whose clocks are wrong, which freeze
// for longer than their leases last, and which remove the App, so that its terms begin again. At each instant at which a run
// is told that it holds the App, no run has been told so that got it later.
func TestNoTwoRunsEverHoldAnApp(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			shelf := &shelf{profiles: map[string]incus.Profile{}, random: rand.New(rand.NewPCG(seed, 1))}
			var mu sync.Mutex
			var got, latest, held int // got: so many leases
			var runs sync.WaitGroup
			for n := range 8 {
				runs.Go(func() {
					l := &rollout.Leases{
						Profiles:      func(string) rollout.Profiles { return shelf },
						CreateProject: func(context.Context, incus.Project) error { return nil },
						Holder:        fmt.Sprint("run ", n), Clock: skewed{by: time.Duration(n-4) * 2 * time.Minute},
					}
					for round := range 20 {
						shelf.dawdle(time.Minute)
						var dead atomic.Bool
						l.Profiles = func(string) rollout.Profiles { return doomed{shelf, &dead} }
						lease, err := l.Acquire(t.Context(), "", "web", fmt.Sprint(n, ".", round))
						if err != nil {
							continue
						}
						mu.Lock()
						got++
						own := got
						mu.Unlock()
						keeps := shelf.roll(3) > 0 // otherwise it is frozen from the start
						if keeps {
							lease.Keep(t.Context(), func(error) {})
						}
						for range 5 {
							shelf.dawdle(90 * time.Second)
							mu.Lock()
							begun := latest
							mu.Unlock()
							if lease.Check(t.Context()) != nil {
								break
							}
							mu.Lock()
							held++
							if own < begun {
								t.Errorf("seed %d: lease %d (term %d) is told that it holds the App after lease %d was", seed, own, lease.Term(), begun)
							}
							latest = max(latest, own)
							mu.Unlock()
						}
						dead.Store(shelf.roll(2) == 0) // its process dies, without a release
						switch {
						case shelf.roll(3) == 0:
							_ = lease.Forget(t.Context())
						case keeps:
							_ = lease.Release(t.Context())
						}
					}
				})
			}
			runs.Wait()
			if held < 8 {
				t.Errorf("seed %d: only %d checks succeeded: the test shows little", seed, held)
			}
		})
	}
}

func TestAProfileOfOthersWithTheNameOfALeaseIsNamedAndLeftAlone(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		for run := range 3 {
			if err := acquired(t, s.leases("ann@desk"), fmt.Sprint(run)).Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		meta := s.server.Client(t).UseProject(rollout.DefaultCoordination)
		for _, term := range []string{"7", "2"} { // above ours, and among them
			name := "lease-web-" + term
			if err := meta.CreateProfile(t.Context(), incus.Profile{Name: name, Config: map[string]string{"user.mine": "yes"}}); err != nil {
				t.Fatal(err)
			}
			_, err := s.leases("bob@laptop").Acquire(t.Context(), "", "web", "2")
			if !errors.Is(err, rollout.ErrBusy) || !strings.Contains(err.Error(), "the profile "+name+" has the name of its lease") {
				t.Errorf("with %s in the way: %v", name, err)
			}
			if got, _, err := meta.GetProfile(t.Context(), name); err != nil || got.Config["user.mine"] != "yes" {
				t.Errorf("%s is %+v (%v)", name, got, err)
			}
			if err := meta.DeleteProfile(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		_ = acquired(t, s.leases("bob@laptop"), "3").Forget(t.Context())
	})
}
