package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// story is the life of one App: what it is wished to be, one after the other, what befalls it meanwhile, and what it is
// wished to be in the end, when nothing goes wrong any more.
type story struct {
	Kind      string
	Clustered bool // the server
	PerNode   bool
	Leases    bool
	Rounds    []round
	Final     change
}

// round is one apply, with what befalls it.
type round struct {
	Wish    change
	Hand    []hand        // what somebody does on the server before it
	Away    string        // the node that is away meanwhile; empty for none
	Mishaps []mishap      // what goes wrong with its calls
	Ill     []illness     // what isn't healthy
	Cancel  time.Duration // after which the run is cancelled; 0 for never
	Other   *change       // what another process wishes at the same time
	Later   time.Duration // how much later that begins
	Destroy bool          // the App is removed instead
}

// change is what of the App's wish differs between rounds.
type change struct {
	Version  string
	Replicas int
	Nodes    []string
	Group    string
	Memory   string
	Config   string
	Pool     string
	Endpoint bool
	Parallel int
}

// hand is what somebody does to one of the App's instances.
type hand struct {
	Which int // of those that are there
	What  string
}

// illness lets instances of a member fail their looks for some time of their lives.
type illness struct {
	Member   int
	Version  string // of the instances that have it; empty for all
	From, To time.Duration
}

// mishap is what happens to the Nth call of a kind.
type mishap struct {
	What, Call string
	N          int
}

// calls are kinds of calls to be met by a mishap.
var calls = map[string]incustest.Match{
	"any":      incustest.Any,
	"write":    incustest.Mutating,
	"create":   incustest.To("POST", "/1.0/instances"),
	"state":    incustest.To("PUT", "/1.0/instances/*/state"),
	"patch":    incustest.To("PATCH", "/1.0/instances/*"),
	"delete":   incustest.To("DELETE", "/1.0/instances/*"),
	"file":     incustest.To("POST", "/1.0/instances/*/files"),
	"list":     incustest.To("GET", "/1.0/instances"),
	"wait":     incustest.To("GET", "/1.0/operations/*/wait"),
	"volume":   incustest.To("", "/1.0/storage-pools/*/volumes/**"),
	"forward":  incustest.To("", "/1.0/networks/*/forwards/**"),
	"snapshot": incustest.To("POST", "/1.0/storage-pools/*/volumes/custom/*/snapshots"),
}

// mishaps are what can happen to a call.
var mishaps = map[string]func(s *incustest.Server, n int, match incustest.Match){
	"500": func(s *incustest.Server, n int, m incustest.Match) {
		s.FailNth(n, m, 500, "an error that was scripted")
	},
	"503":         func(s *incustest.Server, n int, m incustest.Match) { s.FailNth(n, m, 503, "not now") },
	"403":         func(s *incustest.Server, n int, m incustest.Match) { s.FailNth(n, m, 403, "not authorized") },
	"busy":        func(s *incustest.Server, n int, m incustest.Match) { s.FailNth(n, m, 500, "database is locked") },
	"lost":        func(s *incustest.Server, n int, m incustest.Match) { s.LoseNth(n, m) },
	"answer lost": func(s *incustest.Server, n int, m incustest.Match) { s.FailAfterNth(n, m) },
	"operation":   func(s *incustest.Server, n int, m incustest.Match) { s.FailOperation(n, m, "it failed") },
	"forgotten":   func(s *incustest.Server, n int, m incustest.Match) { s.ForgetNth(n, m) },
	"slow":        func(s *incustest.Server, _ int, m incustest.Match) { s.Slow(m, 7*time.Second) },
	"killed":      func(s *incustest.Server, n int, m incustest.Match) { s.Kill(n, m, false) },
	"killed late": func(s *incustest.Server, n int, m incustest.Match) { s.Kill(n, m, true) },
}

var (
	kinds = []string{"stateless", "reloadable", "followed", "volumes", "exclusive", "machine", "exclusive machine", "quorum", "switchover"}
	nodes = []string{"m1", "m2", "m3"}
)

// single tells which kinds have one member.
func single(kind string) bool {
	return kind == "exclusive" || kind == "machine" || kind == "exclusive machine"
}

// stepping tells which kinds have a cluster of their own.
func stepping(kind string) bool { return kind == "quorum" || kind == "switchover" }

// overlapping tells which kinds go on serving while they are replaced.
func overlapping(kind string) bool {
	return kind == "stateless" || kind == "reloadable" || kind == "followed"
}

// stories draws any of them.
func stories() *rapid.Generator[story] {
	return rapid.Custom(func(t *rapid.T) story {
		s := story{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Leases: rapid.Bool().Draw(t, "leases")}
		s.Clustered = s.Kind != "followed" && s.Kind != "machine" && rapid.Bool().Draw(t, "clustered")
		s.PerNode = s.Clustered && !single(s.Kind) && (s.Kind == "volumes" || rapid.Bool().Draw(t, "per node"))
		s.Rounds = rapid.SliceOfN(s.rounds(), 1, 6).Draw(t, "rounds")
		s.Final = s.changes([]string{"1.0.0", "1.1.0", "1.2.0"}, []string{"one", "two"}).Draw(t, "final")
		return s
	})
}

// changes draws wishes.
func (s story) changes(versions, configs []string) *rapid.Generator[change] {
	return rapid.Custom(func(t *rapid.T) change {
		c := change{
			Version:  rapid.SampledFrom(versions).Draw(t, "version"),
			Replicas: rapid.IntRange(1, 5).Draw(t, "replicas"),
			Memory:   rapid.SampledFrom([]string{"", "64MiB", "128MiB"}).Draw(t, "memory"),
			Config:   rapid.SampledFrom(configs).Draw(t, "config"),
			Pool:     rapid.SampledFrom([]string{"", incustest.DefaultPool, "fast"}).Draw(t, "pool"),
			Endpoint: rapid.Bool().Draw(t, "endpoint"),
			Parallel: rapid.IntRange(0, 3).Draw(t, "parallel"),
		}
		if s.PerNode {
			c.Nodes = rapid.SliceOfNDistinct(rapid.SampledFrom(nodes), 1, 3, rapid.ID).Draw(t, "nodes")
		}
		if s.Clustered && !s.PerNode && !single(s.Kind) {
			c.Group = rapid.SampledFrom([]string{"", "web"}).Draw(t, "group")
		}
		return c
	})
}

// rounds draws applies with what befalls them.
func (s story) rounds() *rapid.Generator[round] {
	return rapid.Custom(func(t *rapid.T) round {
		any := s.changes([]string{"1.0.0", "1.1.0", "1.2.0", "2.0.0"}, []string{"one", "two", "bad"})
		r := round{
			Wish:    any.Draw(t, "wish"),
			Mishaps: rapid.SliceOfN(anyMishap(), 0, 3).Draw(t, "mishaps"),
			Ill:     rapid.SliceOfN(anyIllness(), 0, 2).Draw(t, "ill"),
			Destroy: rapid.IntRange(0, 19).Draw(t, "destroy") == 19,
		}
		if !stepping(s.Kind) { // a quorum that somebody takes away stays away
			r.Hand = rapid.SliceOfN(anyHand(), 0, 2).Draw(t, "hand")
		}
		if rapid.IntRange(0, 3).Draw(t, "cancelled") == 3 {
			r.Cancel = time.Duration(rapid.IntRange(1, 60).Draw(t, "cancel")) * time.Second
		}
		if s.Clustered && rapid.IntRange(0, 2).Draw(t, "some away") == 2 {
			r.Away = rapid.SampledFrom(nodes).Draw(t, "away")
		}
		if s.Leases && rapid.IntRange(0, 3).Draw(t, "another") == 3 {
			other := any.Draw(t, "other")
			r.Other, r.Later = &other, time.Duration(rapid.IntRange(0, 90).Draw(t, "later"))*time.Second
		}
		return r
	})
}

func anyMishap() *rapid.Generator[mishap] {
	return rapid.Custom(func(t *rapid.T) mishap {
		m := mishap{What: rapid.SampledFrom(slices.Sorted(maps.Keys(mishaps))).Draw(t, "what"), Call: rapid.SampledFrom(slices.Sorted(maps.Keys(calls))).Draw(t, "call")}
		most := 8
		switch m.Call {
		case "any":
			most = 120
		case "write":
			most = 40
		}
		m.N = rapid.IntRange(1, most).Draw(t, "n")
		return m
	})
}

func anyIllness() *rapid.Generator[illness] {
	return rapid.Custom(func(t *rapid.T) illness {
		from := rapid.IntRange(0, 20).Draw(t, "from")
		return illness{
			Member: rapid.IntRange(0, 4).Draw(t, "member"), Version: rapid.SampledFrom([]string{"", "1.0.0", "1.1.0", "1.2.0"}).Draw(t, "of"),
			From: time.Duration(from) * time.Second, To: time.Duration(from+rapid.IntRange(1, 60).Draw(t, "for")) * time.Second,
		}
	})
}

func anyHand() *rapid.Generator[hand] {
	return rapid.Custom(func(t *rapid.T) hand {
		return hand{Which: rapid.IntRange(0, 9).Draw(t, "which"), What: rapid.SampledFrom([]string{"delete", "stop", "freeze", "start", "limit", "relocate"}).Draw(t, "what")}
	})
}

// wishOf is the whole wish of a round.
func (w *world) wishOf(c change) rollout.Wish {
	wish := w.wish
	a := &wish.App
	a.Image, a.Version = "web/"+c.Version, c.Version
	a.Volumes = append([]renderer.Volume(nil), a.Volumes...)
	if c.Memory != "" {
		a.Limits = map[string]string{"limits.memory": c.Memory}
	}
	if w.story.Kind == "reloadable" {
		a.Params = renderer.Params{"config": c.Config}
	}
	if !single(w.story.Kind) {
		wish.Replicas = app.Replicas{Count: c.Replicas}
	}
	if w.story.PerNode {
		wish.Replicas, wish.Nodes = app.Replicas{PerNode: true}, c.Nodes
	}
	wish.Group, a.Replicas = c.Group, len(wish.Members())
	for n := range a.Volumes {
		if !stepping(w.story.Kind) { // which refuse to change it together with the image
			a.Volumes[n].Pool = c.Pool
		}
	}
	if !c.Endpoint || w.story.Clustered {
		wish.Endpoint = nil
	}
	wish.Rollout.MaxParallel = c.Parallel
	return wish
}

// do does by hand what a person with the CLI would.
func (w *world) do(h hand) {
	var names []string
	for _, i := range w.server.Instances() {
		if i.Config[app.KeyApp] == "web" && i.Config[app.KeyType] != "proxy" {
			names = append(names, i.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	name := names[h.Which%len(names)]
	w.say("by hand: %s %s", h.What, name)
	switch h.What {
	case "delete":
		if i, _ := w.server.Instance(name); !overlapping(w.story.Kind) && w.beside(i) {
			return // whoever takes away an update in place and what it came from, half-way, has only its snapshot left
		}
		w.server.Remove(name)
		w.deleted = true
		return
	case "relocate":
		if !w.story.Clustered || len(w.wish.App.Volumes) > 0 {
			return
		}
	}
	err := w.server.Edit(name, func(i *incus.Instance) {
		switch h.What {
		case "stop":
			i.Status = "Stopped"
		case "freeze":
			if i.Status == "Running" {
				i.Status = "Frozen"
			}
		case "start":
			if overlapping(w.story.Kind) { // two writers of one volume would be that person's own doing
				i.Status = "Running"
			}
		case "limit":
			i.Config["limits.memory"] = "1GiB"
		case "relocate":
			i.Location = nodes[h.Which%len(nodes)]
		}
	})
	if err != nil {
		w.violated("%v", err)
	}
}

// String is the story as one line for each round.
func (s story) String() string {
	text := fmt.Sprintf("%s, cluster %t, per node %t, leases %t", s.Kind, s.Clustered, s.PerNode, s.Leases)
	for n, r := range s.Rounds {
		text += fmt.Sprintf("\n%d: %+v", n, r)
		if r.Other != nil {
			text += fmt.Sprintf("\n%d, the other one: %+v", n, *r.Other)
		}
	}
	return text + fmt.Sprintf("\nfinal: %+v", s.Final)
}
