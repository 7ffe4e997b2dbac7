package staticsite

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

// host is an instance that serves a site.
type host struct {
	*renderertest.Machine
	t *testing.T
}

func newHost(t *testing.T, site map[string]string) host {
	t.Helper()
	h := host{renderertest.NewMachine(t), t}
	for _, f := range h.spec(site).Hot.Files {
		h.Write(t, f.Path, f.Content)
	}
	h.Write(t, "/var/www/foreign.txt", "not ours")
	return h
}

func (h host) app(site map[string]string) renderer.App {
	texts := map[string]any{}
	for name, text := range site {
		texts[name] = text
	}
	return renderertest.App(h.t, Renderer{}, map[string]any{"content": texts})
}

func (h host) spec(site map[string]string) renderer.Spec {
	return renderertest.Desired(h.t, Renderer{}, h.app(site))
}

func (h host) to(site map[string]string) error {
	return Renderer{}.Reload(h.t.Context(), h, h.app(site), "web-g0", h.spec(site))
}

// expect tells that the site is served, that the list says so, and that nothing but it and what is foreign is there.
func (h host) expect(site map[string]string) {
	h.t.Helper()
	want := []string{inventoryPath, "/var/www/foreign.txt"}
	names := slices.Sorted(maps.Keys(site))
	for _, name := range names {
		want = append(want, "/var/www/"+name)
		if got := h.Read(h.t, "/var/www/"+name); got != site[name] {
			h.t.Errorf("%s is %q, want %q", name, got, site[name])
		}
	}
	slices.Sort(want)
	files := h.Files(h.t)
	slices.Sort(files)
	if !slices.Equal(files, want) {
		h.t.Errorf("files %v, want %v", files, want)
	}
	if list := h.Read(h.t, inventoryPath); list != strings.Join(names, "\n")+"\n" {
		h.t.Errorf("the list of our files is %q", list)
	}
}

var (
	oldSite = map[string]string{"index.html": "old", "kept.css": "same", "gone/deep/a.txt": "x", "with space.txt": "old", "-rf": "old", "folder/b": "x", "c": "file"}
	newSite = map[string]string{"index.html": "new", "kept.css": "same", "added/new.js": "y", "with space.txt": "new", "-rf": "new", "folder": "a file now", "c/d": "a folder now", "quote'\"$x`.txt": "z"}
)

func TestReloadBringsAddsAndRemoves(t *testing.T) {
	h := newHost(t, oldSite)
	if err := h.to(newSite); err != nil {
		t.Fatal(err)
	}
	h.expect(newSite)
	if _, err := os.Stat(h.Path("/var/www/gone")); !errors.Is(err, os.ErrNotExist) {
		t.Error("an empty folder is left")
	}
	if err := h.to(newSite); err != nil {
		t.Fatal(err)
	}
	h.expect(newSite)
}

// A file that is in both sites is never missing and never something else than one of its two texts.
func TestReloadNeverShowsHalfAFile(t *testing.T) {
	h := newHost(t, oldSite)
	h.After = func() {
		for name, old := range oldSite {
			next, stays := newSite[name]
			if !stays {
				continue
			}
			if got := h.Read(t, "/var/www/"+name); got != old && got != next {
				t.Errorf("%s is %q after %s", name, got, h.Calls[len(h.Calls)-1])
			}
		}
		if h.Read(t, "/var/www/foreign.txt") != "not ours" {
			t.Errorf("a foreign file is touched by %s", h.Calls[len(h.Calls)-1])
		}
	}
	if err := h.to(newSite); err != nil {
		t.Fatal(err)
	}
}

func TestReloadAfterACrashAtAnyPoint(t *testing.T) {
	third := map[string]string{"index.html": "third"}
	for _, next := range []map[string]string{newSite, third} {
		for at := 1; ; at++ {
			h := newHost(t, oldSite)
			h.CrashAt = at
			err := h.to(newSite)
			if err == nil {
				if at < 10 {
					t.Fatalf("only %d calls", at)
				}
				break
			}
			h.CrashAt = 0
			if err := h.to(next); err != nil {
				t.Fatalf("after a crash at call %d: %v", at, err)
			}
			h.expect(next)
		}
	}
}

func TestPagesComeAfterWhatTheyReferTo(t *testing.T) {
	h := newHost(t, map[string]string{"index.html": "old"})
	if err := h.to(map[string]string{"index.html": "new", "a.css": "x", "z.js": "y"}); err != nil {
		t.Fatal(err)
	}
	for _, call := range h.Calls {
		if strings.Contains(call, "mv -f") && strings.Contains(call, "index.html") {
			if strings.Index(call, "/var/www/z.js") > strings.Index(call, "/var/www/index.html") {
				t.Error(call)
			}
			return
		}
	}
	t.Error("nothing was moved")
}

func TestManyFilesGoInBatches(t *testing.T) {
	site := map[string]string{"index.html": "x"}
	for i := range 500 {
		site["f"+string(rune('a'+i%26))+strings.Repeat("x", i/26)] = "y"
	}
	h := newHost(t, map[string]string{"index.html": "old"})
	if err := h.to(site); err != nil {
		t.Fatal(err)
	}
	h.expect(site)
	if err := h.to(map[string]string{"index.html": "x"}); err != nil {
		t.Fatal(err)
	}
	h.expect(map[string]string{"index.html": "x"})
}

func TestWithoutAListNothingIsRemoved(t *testing.T) {
	h := newHost(t, oldSite)
	if err := os.Remove(h.Path(inventoryPath)); err != nil {
		t.Fatal(err)
	}
	if err := h.to(map[string]string{"index.html": "new"}); err != nil {
		t.Fatal(err)
	}
	if h.Read(t, "/var/www/gone/deep/a.txt") != "x" || h.Read(t, "/var/www/index.html") != "new" {
		t.Error("what isn't known to be ours was touched, or what is wasn't")
	}
}

func TestAListThatWasEditedRemovesNothingElse(t *testing.T) {
	h := newHost(t, oldSite)
	h.Write(t, "/etc/passwd", "root")
	h.Write(t, inventoryPath, "../../etc/passwd\n/etc/passwd\n\nindex.html\n")
	if err := h.to(map[string]string{"index.html": "new"}); err != nil {
		t.Fatal(err)
	}
	if h.Read(t, "/etc/passwd") != "root" {
		t.Error("a file outside of the site was removed")
	}
}
