package renderer

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
)

func fullApp() App {
	return App{
		Name: "web", Description: "The web", Environment: map[string]string{"B": "2", "A": "1"},
		Files:  []File{{Path: "/b", Content: "b"}, {Path: "/a", Content: "a", Mode: 0o644}},
		Limits: map[string]string{"limits.cpu": "2"}, Config: map[string]string{"security.nesting": "true"},
		Network: "lan", StoragePool: "fast",
	}
}

func TestBaseBringsTogetherWhatAllTypesHave(t *testing.T) {
	want := Spec{
		Config: map[string]string{"environment.A": "1", "environment.B": "2", "security.nesting": "true"},
		Devices: map[string]map[string]string{
			"eth0": {"type": "nic", "network": "lan", "name": "eth0"},
			"root": {"type": "disk", "path": "/", "pool": "fast"},
		},
		Profiles: []string{"default"},
		Files:    []File{{Path: "/a", Content: "a", Mode: 0o644}, {Path: "/b", Content: "b"}},
		Hot:      Hot{Description: "The web", Config: map[string]string{"limits.cpu": "2"}},
	}
	if diff := cmp.Diff(want, Base(fullApp(), app.Identity{App: "web", Member: "0"})); diff != "" {
		t.Error(diff)
	}
	none := Base(App{Profiles: []string{}}, app.Identity{})
	if len(none.Profiles) != 0 || len(none.Devices) != 0 {
		t.Errorf("no profiles are %v, no network and pool %v", none.Profiles, none.Devices)
	}
}

func TestHashesTellWhatTakesANewGeneration(t *testing.T) {
	cases := map[string]struct {
		change    func(*App)
		cold, hot bool
	}{
		"nothing":           {func(*App) {}, false, false},
		"order of files":    {func(a *App) { a.Files[0], a.Files[1] = a.Files[1], a.Files[0] }, false, false},
		"default mode":      {func(a *App) { a.Files[0].Mode = 0o644 }, false, false},
		"default profile":   {func(a *App) { a.Profiles = []string{"default"} }, false, false},
		"description":       {func(a *App) { a.Description = "x" }, false, true},
		"limit":             {func(a *App) { a.Limits = map[string]string{"limits.cpu": "3"} }, false, true},
		"no limit":          {func(a *App) { a.Limits = nil }, false, true},
		"environment":       {func(a *App) { a.Environment = map[string]string{"A": "1"} }, true, false},
		"config":            {func(a *App) { a.Config = nil }, true, false},
		"note":              {func(a *App) { a.Config["user.owner"] = "me" }, false, true},
		"cloud-init":        {func(a *App) { a.Config["user.user-data"] = "#cloud-config" }, true, false},
		"content of a file": {func(a *App) { a.Files[0].Content = "c" }, true, false},
		"owner of a file":   {func(a *App) { a.Files[0].UID = 33 }, true, false},
		"binary content":    {func(a *App) { a.Files[0].Content = "\xff" }, true, false},
		"profiles":          {func(a *App) { a.Profiles = []string{"default", "x"} }, true, false},
		"network":           {func(a *App) { a.Network = "other" }, true, false},
		"pool":              {func(a *App) { a.StoragePool = "" }, true, false},
	}
	before := Base(fullApp(), app.Identity{App: "web", Member: "0"})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := fullApp()
			c.change(&a)
			after := Base(a, app.Identity{App: "web", Member: "0", Node: "n1", Instance: "web-g3", Generation: 3})
			if got := before.ColdHash("web/1", "1") != after.ColdHash("web/1", "1"); got != c.cold {
				t.Errorf("cold hash changes: %v, want %v", got, c.cold)
			}
			if got := before.HotHash() != after.HotHash(); got != c.hot {
				t.Errorf("hot hash changes: %v, want %v", got, c.hot)
			}
		})
	}
	if before.ColdHash("web/1", "1") == before.ColdHash("web/2", "1") || before.ColdHash("web/1", "1") == before.ColdHash("web/1", "2") {
		t.Error("image and version don't change the cold hash")
	}
}

func TestHashesTellBinaryContentsApart(t *testing.T) {
	one, other := Spec{Files: []File{{Path: "/a", Content: "\xff"}}}, Spec{Files: []File{{Path: "/a", Content: "\xfe"}}}
	if one.ColdHash("", "") == other.ColdHash("", "") {
		t.Error("two contents have one hash")
	}
}

// A hash is kept on every instance: one that comes out differently in another release of the provider would roll out
// every App anew.
func TestHashesStayAsTheyWere(t *testing.T) {
	spec := Base(fullApp(), app.Identity{})
	if got, want := spec.ColdHash("web/1.27.3", "1.27.3"), "90c5f737cd03cb627c3395c3492b8ee5"; got != want {
		t.Errorf("cold hash %s, want %s", got, want)
	}
	if got, want := spec.HotHash(), "24a40932b0694da7fda0394a5a2c4d14"; got != want {
		t.Errorf("hot hash %s, want %s", got, want)
	}
}
