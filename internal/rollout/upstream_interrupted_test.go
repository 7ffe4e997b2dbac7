package rollout_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

func TestTwoUpstreamsRollOutAtOnce(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.mustCreate()
		db := s.wish
		db.App.Name, db.Endpoint = "db", nil
		if _, err := s.Apply(t.Context(), db, s.facts(true)); err != nil {
			t.Fatal(err)
		}
		s.mustProxy(s.proxy("proxy", "db", "web"))
		ended := make(chan error)
		go func() {
			_, err := s.upgrade("1.1.0")
			ended <- err
		}()
		go func() {
			next := db
			next.App.Image, next.App.Version = "web/1.1.0", "1.1.0"
			_, err := s.Apply(t.Context(), next, s.facts(false))
			ended <- err
		}()
		go func() {
			w := s.proxy("proxy", "db", "web")
			former := w
			w.Former, w.App.Params = &former, renderer.Params{"balance": "leastconn", "weight": int64(1)}
			_, err := s.applyProxy(w, false)
			ended <- err
		}()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		s.checkFollowers("after all three")
		if got := s.loaded["proxy-1-g0"]; !strings.HasPrefix(got, "balance leastconn\n") {
			t.Errorf("the proxy runs on %q, want its own change too", got)
		}
	})
}

func TestProxyIsReplacedWhileItsUpstreamIs(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		ended := make(chan error)
		go func() {
			_, err := s.upgrade("1.1.0")
			ended <- err
		}()
		go func() {
			w := s.proxy("proxy", "web")
			w.App.Image, w.App.Version = "web/1.1.0", "1.1.0"
			_, err := s.applyProxy(w, false)
			ended <- err
		}()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if got := s.serving(); !slices.Equal(got, []string{"proxy-0-g1", "proxy-1-g1"}) {
			t.Errorf("the proxies are %v", got)
		}
		s.checkFollowers("after both")
	})
}

func TestBindingThatSomebodyElseWroteMeanwhileIsDoneAgain(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		edited := false
		s.refuses = func(instance, _ string) error {
			if instance == "proxy-0-g0" && !edited {
				edited = true
				return s.server.Edit(instance, func(i *incus.Instance) { i.Config["user.note"] = "from another process" })
			}
			return nil
		}
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.checkFollowers("afterwards")
		if i, _ := s.server.Instance("proxy-0-g0"); i.Config["user.note"] == "" {
			t.Error("what somebody else wrote is lost")
		}
	})
}

func TestReloadThatCouldNotBeNotedIsTakenBackWithTheRollOut(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		s.server.FailNth(1, func(r incustest.Request) bool {
			return r.Method == http.MethodPatch && strings.Contains(string(r.Body), app.KeyUpstreams)
		}, 500, "disk full")
		if _, err := s.upgrade("1.1.0"); !errors.Is(err, rollout.ErrReverted) || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("want a reverted roll-out, got: %v", err)
		}
		s.expect("afterwards", simOld)
		s.checkFollowers("afterwards")
	})
}

// The killed run has led a proxy to the new instance and not noted that; the next one goes back before it would lead any.
func TestReloadThatAKilledRunCouldNotNoteIsTakenBackByTheNext(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		s.server.Kill(1, func(r incustest.Request) bool {
			return r.Method == http.MethodPatch && strings.Contains(string(r.Body), app.KeyUpstreams)
		}, false)
		if _, err := s.upgrade("1.1.0"); err == nil {
			t.Fatal("the killed run ended well")
		}
		s.server.Revive()
		s.health = func(instance, _ string, _ time.Duration) error {
			if instance == "web-1-g1" {
				return errors.New("connection refused")
			}
			return nil
		}
		if _, err := s.upgrade("1.1.0"); !errors.Is(err, rollout.ErrReverted) {
			t.Errorf("want a reverted roll-out, got: %v", err)
		}
		s.expect("afterwards", simOld)
		s.checkFollowers("afterwards")
	})
}

// Another process may bind the same instance to something else between two requests of ours.
func TestTwoProcessesBindOneProxy(t *testing.T) {
	followed(t, func(t *testing.T, s *sim) {
		once := false
		s.refuses = func(instance, content string) error {
			if instance != "proxy-0-g0" || once {
				return nil
			}
			once = true
			// The other one has looked later than we, loaded earlier, and noted that already.
			return s.server.Edit(instance, func(i *incus.Instance) {
				i.Config[app.KeyUpstreams] = i.Config[app.KeyLoading]
				delete(i.Config, app.KeyLoading)
			})
		}
		files := incustest.To("POST", "/1.0/instances/proxy-0-g0/files")
		before := s.server.Count(files)
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Fatal(err)
		}
		if reloads := s.server.Count(files) - before; reloads != 3 {
			t.Errorf("the proxy was given its file %d times, want 3: once for each member, and again where what the other one noted is not what it runs on since we loaded ours", reloads)
		}
		s.checkFollowers("afterwards")
	})
}

func TestRunThatIsKilledBetweenReloadAndItsNoteIsMendedByTheNext(t *testing.T) {
	for name, next := range map[string]func(s *sim) error{
		"of the upstream": func(s *sim) error {
			_, err := s.upgrade("1.1.0")
			return err
		},
		"of the proxy, then of the upstream": func(s *sim) error {
			_, err := s.applyProxy(s.proxy("proxy", "web"), false)
			if err == nil {
				_, err = s.upgrade("1.1.0")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			followed(t, func(t *testing.T, s *sim) {
				s.server.Kill(1, func(r incustest.Request) bool {
					return r.Method == http.MethodPatch && strings.Contains(string(r.Body), app.KeyUpstreams)
				}, false)
				if _, err := s.upgrade("1.1.0"); err == nil {
					t.Fatal("the killed run ended well")
				}
				s.server.Revive()
				if err := next(s); err != nil {
					t.Fatal(err)
				}
				s.checkFollowers("after the next run")
			})
		})
	}
}

func TestFollowersOnALostNodeAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 2, incustest.WithMembers("m1", "m2", "m3"))
		s.wish.Endpoint, s.wish.Node = nil, "m1"
		s.mustCreate()
		w := s.proxy("proxy", "web")
		w.Node, w.Replicas, w.Nodes = "", app.Replicas{PerNode: true}, []string{"m2", "m3"}
		s.mustProxy(w)
		s.server.OfflineMember("m3")
		result, err := s.Apply(t.Context(), s.to("1.1.0"), s.facts(false))
		if err != nil {
			t.Fatal(err)
		}
		if !warned(result, "the node of that App's instance proxy-m3-g0 can't be reached") {
			t.Errorf("warnings are %q", result.Warnings)
		}
		if got := s.leadsTo("proxy-m2-g0"); !slices.Equal(got, []string{"web-0-g1", "web-1-g1"}) {
			t.Errorf("the one that is there leads to %v", got)
		}
	})
}

func TestMembersOnALostNodeStayBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 2, incustest.WithMembers("m1", "m2"))
		s.wish.Endpoint, s.wish.Replicas, s.wish.Nodes = nil, app.Replicas{PerNode: true}, []string{"m1", "m2"}
		s.mustCreate()
		w := s.proxy("proxy", "web")
		w.Node = "m1"
		s.mustProxy(w)
		s.server.OfflineMember("m2")
		o, err := s.Observe(t.Context(), "proxy", rollout.Observation{})
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Members["0"].Active.Stale; len(got) > 0 {
			t.Errorf("stale upstreams are %v: that a member can't be seen does not say that it is gone", got)
		}
	})
}
