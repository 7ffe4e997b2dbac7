package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

func TestHealthyAndWhyNot(t *testing.T) {
	cases := map[string]struct {
		of     string // whose health
		params map[string]any
		change func(f *fakeCluster)
		words  string // empty for healthy
	}{
		"leader":                   {of: "db-0-g0"},
		"replica":                  {of: "db-1-g0"},
		"leader that starts":       {"db-0-g0", nil, func(f *fakeCluster) { f.server("db-0-g0").state = "starting" }, `leads, but its state is "starting"`},
		"nobody answers":           {"db-1-g0", nil, func(f *fakeCluster) { f.server("db-1-g0").down = true }, "GET /cluster at Patroni of db-1-g0"},
		"no leader":                {"db-1-g0", nil, func(f *fakeCluster) { f.leader = "" }, "the cluster has no leader"},
		"not joined":               {"db-1-g0", nil, func(f *fakeCluster) { f.server("db-1-g0").state = "" }, "db-1-g0 has not joined the cluster yet"},
		"makes its copy":           {"db-1-g0", nil, func(f *fakeCluster) { f.server("db-1-g0").state = "creating replica" }, `its state is "creating replica"`},
		"replays from the archive": {"db-1-g0", nil, func(f *fakeCluster) { f.server("db-1-g0").state = "in archive recovery" }, `"in archive recovery"`},
		"lag is not known":         {"db-1-g0", nil, func(f *fakeCluster) { f.server("db-1-g0").noLag = true }, "is not known"},
		"other timeline":           {"db-1-g0", nil, func(f *fakeCluster) { f.server("db-0-g0").timeline = 3 }, "db-1-g0 is on timeline 1, and the leader db-0-g0 on 3"},
		"lags":                     {"db-1-g0", nil, func(f *fakeCluster) { f.written += 8 }, "db-1-g0 is 8 bytes behind the leader db-0-g0; at most 0 are healthy"},
		"lags within bounds":       {"db-1-g0", map[string]any{"max_lag": 8}, func(f *fakeCluster) { f.written += 8 }, ""},
		"receiver is stopped":      {"db-1-g0", nil, func(f *fakeCluster) { f.server("db-1-g0").cutOff = true }, "the leader streams nothing to db-1-g0"},
		"has another address":      {"db-1-g0", nil, func(f *fakeCluster) { f.server("db-1-g0").host = "10.9.9.9" }, "tells the others to reach it at 10.9.9.9"},
		"leader is mute":           {"db-1-g0", nil, func(f *fakeCluster) { f.server("db-0-g0").down = true }, "GET /patroni at Patroni of db-0-g0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, dialect int) {
				f := newCluster(t, dialect, "db-0-g0", "db-1-g0", "db-2-g0")
				at := target(f.server(c.of))
				if c.change != nil {
					c.change(f)
				}
				err := f.renderer().Healthy(t.Context(), f.look(), newApp(t, c.params), at)
				if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
					t.Errorf("got %v, want %q", err, c.words)
				}
			})
		})
	}
}

// Patroni notes positions from time to time: under writes it shows a lag of a replica that has everything.
func TestALagThatOnlyPatroniShowsIsNone(t *testing.T) {
	f := newCluster(t, 4, "db-0-g0", "db-1-g0")
	f.server("db-1-g0").replayed = 400
	f.onWait = func() { f.server("db-1-g0").replayed += 400 }
	if err := f.renderer().Healthy(t.Context(), f.look(), newApp(t, nil), target(f.server("db-1-g0"))); err != nil {
		t.Error(err)
	}
}

func TestAHealthBlockReplacesPatronisWord(t *testing.T) {
	a := newApp(t, nil)
	a.Health = &renderer.Health{TCP: &renderer.TCPProbe{Port: 5432}}
	down := errors.New("down")
	look := &renderertest.Look{Answers: map[string]error{"TCP :5432": down}}
	if err := (Renderer{}).Healthy(t.Context(), look, a, renderer.Target{}); !errors.Is(err, down) {
		t.Error(err)
	}
}
