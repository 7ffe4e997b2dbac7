package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// moving runs a test on an exclusive App with data on its volume, which the wish by then has in the pool "fast".
func moving(t *testing.T, test func(t *testing.T, s *sim), options ...incustest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 1, append(options, incustest.WithPool("fast", "btrfs"))...)
		s.exclusive()
		s.mustCreate()
		s.fill("precious")
		s.toPool(true)
		test(t, s)
		for _, b := range s.broken {
			t.Error(b)
		}
	})
}

// expectBack checks that the App runs as before, and that nothing of the move is left.
func (s *sim) expectBack(what string) {
	s.t.Helper()
	s.expect(what, "web-g0 active 1.0.0 Running → nothing")
	if _, pool := s.dataNow(); pool != incustest.DefaultPool {
		s.t.Errorf("%s: its volume is in pool %s", what, pool)
	}
	s.checkData(what)
}

// expectMoved checks that the App runs the new version on its data in the other pool, and that nothing else is left.
func (s *sim) expectMoved(what string) {
	s.t.Helper()
	s.expect(what, "web-g1 active 1.1.0 Running → nothing")
	if _, pool := s.dataNow(); pool != "fast" {
		s.t.Errorf("%s: its volume is in pool %s", what, pool)
	}
	s.checkData(what)
}

func TestPlanOfAMoveSaysWhatGoesWhere(t *testing.T) {
	moving(t, func(t *testing.T, s *sim) {
		s.wish.App.Volumes[0].Size = "10GiB"
		result, err := s.upgrade("1.1.0")
		if err != nil {
			t.Fatal(err)
		}
		const data = "the data of volume data (at most 10GiB) from pool default to pool fast"
		p := result.Plan
		if p.Strategy != rollout.InPlace || !strings.Contains(p.Downtime, "It moves "+data) {
			t.Errorf("strategy %s, downtime %q", p.Strategy, p.Downtime)
		}
		if want := "stop web-g0, take a snapshot of its volumes that stay, copy " + data + ", verify the copy, start web-g1 on them, "; !strings.Contains(strings.Join(p.Steps(), "\n"), want) {
			t.Errorf("the steps are %v", p.Steps())
		}
		s.expectMoved("afterwards")
		if size := s.server.Volumes()[0].Config["size"]; size != "10GiB" {
			t.Errorf("its size is %q, want the one that it was to get", size)
		}
		again, err := s.upgrade("1.1.0")
		if err != nil || !again.Plan.Empty() {
			t.Errorf("one more apply does %v (%v)", again.Plan.Steps(), err)
		}
	})
}

func TestMoveNeedsLeave(t *testing.T) {
	moving(t, func(t *testing.T, s *sim) {
		s.wish.Rollout.AllowDowntime = false
		before := s.server.Count(incustest.Mutating)
		_, err := s.upgrade("1.0.0")
		for _, part := range []string{"it would stop web-g0 and move the data of volume data from pool default to pool fast", "rollout.allow_downtime = true"} {
			if !errors.Is(err, rollout.ErrRefused) || !strings.Contains(err.Error(), part) {
				t.Errorf("want a refusal that says %q, got: %v", part, err)
			}
		}
		if n := s.server.Count(incustest.Mutating) - before; n != 0 {
			t.Errorf("%d calls changed something, want none", n)
		}
	})
}

func TestSourceIsNotWrittenBeforeTheMoveHasSettled(t *testing.T) {
	moving(t, func(t *testing.T, s *sim) {
		before := s.server.Count(incustest.Any)
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		source := volumePath(incustest.DefaultPool)
		promoted := false
		for _, r := range s.server.Requests()[before:] {
			promoted = promoted || r.Method == http.MethodPatch && strings.HasSuffix(r.Path, "/instances/web-g1")
			if r.Mutating() && !promoted && (r.Path == source || strings.HasPrefix(r.Path, source+"/snapshots")) {
				t.Errorf("%s %s came before the promotion", r.Method, r.Path)
			}
		}
	})
}

// volumePath is the path of the App's volume in a pool.
func volumePath(pool string) string {
	return "/1.0/storage-pools/" + pool + "/volumes/custom/web-0-data"
}

var copying = incustest.To(http.MethodPost, "/1.0/storage-pools/fast/volumes/custom")

func TestCopyThatIsNotItsSourceIsNotUsed(t *testing.T) {
	moving(t, func(t *testing.T, s *sim) {
		s.server.OnCopy = func(content string) string { return content[:len(content)-1] + "?" }
		_, err := s.upgrade("1.1.0")
		if !errors.Is(err, rollout.ErrReverted) || !strings.Contains(err.Error(), "/content in it is not what it is in volume web-0-data") {
			t.Errorf("got %v", err)
		}
		s.expectBack("afterwards")
		s.server.OnCopy = nil
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.expectMoved("in the end")
	})
}

func TestCopyThatFailsGoesBack(t *testing.T) {
	moving(t, func(t *testing.T, s *sim) {
		s.server.FailOperation(1, copying, "No space left on device")
		_, err := s.upgrade("1.1.0")
		if !errors.Is(err, rollout.ErrReverted) || !strings.Contains(err.Error(), "copy volume web-0-data from pool default to pool fast") || !strings.Contains(err.Error(), "No space left on device") {
			t.Errorf("got %v", err)
		}
		s.expectBack("afterwards")
	})
}

func TestCopyIsUsedWhereItsFilesMayNotBeRead(t *testing.T) {
	moving(t, func(t *testing.T, s *sim) {
		s.server.FailNth(1, incustest.To(http.MethodPost, "/1.0/storage-pools/*/volumes/custom/*/backups"), http.StatusForbidden, "Project doesn't allow for backup creation")
		result, err := s.upgrade("1.1.0")
		if err != nil || len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0].String(), "Project doesn't allow for backup creation") {
			t.Errorf("got %v, %v", err, result.Warnings)
		}
		s.expectMoved("afterwards")
	})
}

func TestCopyThatCanNotBeComparedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 1, incustest.WithPool("folder", "dir"), incustest.WithPool("fast", "btrfs"))
		s.exclusive()
		s.wish.App.Volumes[0].Pool = "folder"
		s.mustCreate()
		s.fill("precious")
		s.toPool(true)
		result, err := s.upgrade("1.1.0")
		if err != nil || len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0].String(), "without a comparison file by file: neither its pool nor du in web-g0 told how much it holds") {
			t.Errorf("got %v, %v", err, result.Warnings)
		}
		s.expectMoved("afterwards")
	})
}

func TestInstanceIsAskedHowMuchItsVolumeHolds(t *testing.T) {
	for said, text := range map[string]string{"4\t/data\n": "is not what it is in volume", "1048576\t/data\n": "it holds 1.0 GiB, which is more than 256 MiB"} {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, 1, incustest.WithPool("folder", "dir"), incustest.WithPool("fast", "btrfs"))
			s.exclusive()
			s.wish.App.Volumes[0].Pool = "folder"
			s.mustCreate()
			s.fill("precious")
			s.server.OnExec = func(_ context.Context, c incustest.Command) (incus.ExecResult, error) {
				if got := strings.Join(c.Command, " "); c.Instance != "web-g0" || got != "du -skx /data" {
					t.Errorf("%s was run in %s", got, c.Instance)
				}
				return incus.ExecResult{Stdout: []byte(said)}, nil
			}
			s.server.OnCopy = func(string) string { return "something else" }
			s.toPool(true)
			result, err := s.upgrade("1.1.0")
			if got := fmt.Sprint(err, result.Warnings); !strings.Contains(got, text) {
				t.Errorf("where du says %q: want %q, got %s", said, text, got)
			}
		})
	}
}

func TestVolumeThatSomethingElseWritesIsNotCopied(t *testing.T) {
	moving(t, func(t *testing.T, s *sim) {
		op, err := s.Incus.CreateInstance(t.Context(), incus.InstancesPost{
			Name: "backup", Source: incus.InstanceSource{Type: "image", Alias: "web/1.0.0"}, Start: true,
			InstancePut: incus.InstancePut{Profiles: []string{"default"}, Devices: map[string]map[string]string{
				"data": {"type": "disk", "pool": incustest.DefaultPool, "source": "web-0-data", "path": "/data"},
			}},
		})
		if err == nil {
			err = op.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.upgrade("1.1.0")
		if !errors.Is(err, rollout.ErrReverted) || !strings.Contains(err.Error(), "instance backup, which has the volume too, is running") {
			t.Errorf("got %v", err)
		}
		if n := s.server.Count(copying); n != 0 {
			t.Errorf("%d copies were begun", n)
		}
		s.server.Remove("backup")
		s.expectBack("afterwards")
	})
}

func TestVolumeThatIsWrittenWhileItIsCopiedIsNotUsed(t *testing.T) {
	moving(t, func(t *testing.T, s *sim) {
		s.server.Slow(copying, time.Minute)
		go func() {
			time.Sleep(30 * time.Second)
			op, err := s.Incus.UpdateInstanceState(context.WithoutCancel(t.Context()), "web-g0", incus.InstanceStatePut{Action: "start"})
			if err == nil {
				err = op.Wait(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		}()
		_, err := s.upgrade("1.1.0")
		if !errors.Is(err, rollout.ErrReverted) || !strings.Contains(err.Error(), "instance web-g0, which has the volume too, is running") {
			t.Errorf("got %v", err)
		}
		s.expectBack("afterwards")
	})
}

// A copy can't be cancelled: the member is back at once all the same, and no later run meets what the server still does.
func TestCancelledCopyDoesNotKeepTheMemberDown(t *testing.T) {
	moving(t, func(t *testing.T, s *sim) {
		s.server.Slow(copying, 3*time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		began := time.Now()
		result, err := s.Apply(ctx, s.to("1.1.0"), s.facts(false))
		if !errors.Is(err, rollout.ErrReverted) || len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0].String(), "the server is still copying") {
			t.Errorf("got %v, %v", err, result.Warnings)
		}
		s.expect("afterwards", "web-g0 active 1.0.0 Running → nothing")
		if down := result.Downtime["0"]; down > 11*time.Minute || time.Since(began) > 13*time.Minute {
			t.Errorf("down for %s; the run took %s", down, time.Since(began))
		}
		s.fill("written since")
		s.server.Revive() // the next copy takes no time; the first one still goes on
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.expect("moved all the same", "web-g1 active 1.1.0 Running → nothing")
		time.Sleep(3 * time.Hour)
		s.wish.App.Description = "one more change"
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.expectMoved("when the first copy has come to its end")
	})
}

func TestHalfACopyOfADeadServerIsRemoved(t *testing.T) {
	moving(t, func(t *testing.T, s *sim) {
		left := incus.StorageVolume{Name: "web-0-data-copy-deadbeef", Config: map[string]string{
			app.KeyApp: "web", app.KeyMember: "0", app.KeyVolume: "data", app.KeyCopyOf: incustest.DefaultPool, app.KeyPhase: string(app.Copying),
		}}
		if err := s.Incus.CreateStoragePoolVolume(t.Context(), "fast", left); err != nil {
			t.Fatal(err)
		}
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.expectMoved("afterwards")
	})
}

// TestKilledMoveThenDestroyedKeepsTheData kills the move at each of its writes, destroys the App, and makes it anew where the
// data was kept: it must be there, whole, and once.
func TestKilledMoveThenDestroyedKeepsTheData(t *testing.T) {
	for n, done := 1, false; !done && !t.Failed(); n++ {
		for _, after := range []bool{false, true} {
			moving(t, func(t *testing.T, s *sim) {
				what := fmt.Sprintf("killed at write %d, carried out: %t", n, after)
				s.server.Kill(n, incustest.Mutating, after)
				_, err := s.upgrade("1.1.0")
				if done = err == nil; done {
					return
				}
				s.server.Revive()
				if _, err := s.Destroy(t.Context(), "web", rollout.Observation{}); err != nil {
					t.Fatalf("%s: destroy: %v", what, err)
				}
				all := s.server.Volumes()
				if len(all) != 1 || all[0].Name != "web-0-data" {
					t.Fatalf("%s: the volumes are %+v", what, all)
				}
				_, there := s.server.VolumeContent("fast", "web-0-data")
				s.toPool(there)
				if _, err := s.create(); err != nil {
					t.Fatalf("%s: make it anew: %v", what, err)
				}
				s.checkData(what)
			})
		}
		if n == 2 && done {
			t.Fatal("the move makes no writes")
		}
	}
}

// TestWhatAFailedVersionWroteOnItsCopyIsNotTheData kills the way back from a version that was promoted, writes, and fails then.
// Once that is gone, blue's volume is the data: for a run that destroys the App, and for one that finds no instance at all.
func TestWhatAFailedVersionWroteOnItsCopyIsNotTheData(t *testing.T) {
	for name, remove := range map[string]func(s *sim) error{
		"destroyed": func(s *sim) error {
			_, err := s.Destroy(s.t.Context(), "web", rollout.Observation{})
			return err
		},
		"deleted by hand": func(s *sim) error {
			for _, i := range s.server.Names() {
				s.server.Remove(i)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) { killedOnTheWayBack(t, remove) })
	}
}

func killedOnTheWayBack(t *testing.T, remove func(s *sim) error) {
	t.Helper()
	back := 0
	for n, done := 1, false; !done && !t.Failed(); n++ {
		for _, after := range []bool{false, true} {
			moving(t, func(t *testing.T, s *sim) {
				what := fmt.Sprintf("killed at write %d, carried out: %t", n, after)
				s.health = func(instance, _ string, age time.Duration) error {
					if instance == "web-g1" && age > 5*time.Second {
						return errors.New("500 Internal Server Error")
					}
					return nil
				}
				started := s.server.OnStart
				s.server.OnStart = func(i incus.Instance) error {
					if i.Name == "web-g1" {
						member, pool := dataPlace(i)
						if err := s.server.SetVolumeContentOn(member, pool, s.volume(), "written by a bad one"); err != nil {
							return err
						}
					}
					return started(i)
				}
				s.server.Kill(n, incustest.Mutating, after)
				if _, err := s.upgrade("1.1.0"); err == nil {
					t.Fatal("the bad version came through")
				}
				if done = !s.server.Killed(); done {
					return
				}
				s.server.Revive()
				if _, there := s.server.Instance("web-g1"); there || n < 10 {
					return // not on the way back, or not yet gone
				}
				back++
				if err := remove(s); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				s.toPool(false)
				if _, err := s.create(); err != nil {
					t.Fatalf("%s: make it anew: %v", what, err)
				}
				s.checkData(what)
			})
		}
	}
	if back == 0 {
		t.Error("no kill was on the way back")
	}
}
