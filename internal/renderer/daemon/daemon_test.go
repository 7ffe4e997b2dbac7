package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

const configPath = "/etc/served/served.conf"

// served is a daemon of a master and one worker. It refuses a configuration with the word "broken" when it is checked, and
// one with the word "stuck" when it is told to reload.
type served struct {
	*renderertest.Machine
	t       *testing.T
	running string // the configuration that the worker has; empty for a daemon that isn't there
	worker  int
	lingers bool // old workers stay, with open connections
	old     []int
}

func newServed(t *testing.T) *served {
	t.Helper()
	s := &served{Machine: renderertest.NewMachine(t), t: t, running: "old", worker: 10}
	s.Write(t, configPath, "old")
	s.Programs["served"] = func(args []string) incus.ExecResult {
		if strings.Contains(s.Read(t, args[1]), "broken") {
			return incus.ExecResult{ExitCode: 1, Stderr: []byte("unexpected word in " + args[1] + ":1")}
		}
		return incus.ExecResult{}
	}
	s.Programs["sh /proc/"] = func([]string) incus.ExecResult { return incus.ExecResult{Stdout: []byte(s.stats())} }
	s.Programs["sh kill"] = func(args []string) incus.ExecResult {
		if !slices.Equal(args, []string{"HUP", "5"}) {
			t.Errorf("signal %v", args)
		}
		s.reload()
		return incus.ExecResult{}
	}
	s.Programs["tail"] = func([]string) incus.ExecResult {
		return incus.ExecResult{Stdout: []byte("bind() failed: address in use\n")}
	}
	return s
}

func (s *served) reload() {
	config := s.Read(s.t, configPath)
	if strings.Contains(config, "stuck") {
		return
	}
	if s.lingers {
		s.old = append(s.old, s.worker)
	}
	s.running, s.worker = config, s.worker+1
}

// stats is /proc/*/stat of the machine.
func (s *served) stats() string {
	text := "1 (init) S 0 1 1\n7 (a (b) c) S 1 1 1\n20 (served) Z 5 5 5\n"
	if s.running == "" {
		return text
	}
	text += fmt.Sprintf("5 (served) S 1 5 5\n%d (served) S 5 5 5\n", s.worker)
	for _, pid := range s.old {
		text += fmt.Sprintf("%d (served) S 5 5 5\n", pid)
	}
	return text
}

func (s *served) daemon() Daemon {
	return Daemon{
		Program: "served", Signal: "HUP", Log: "/var/log/served.log",
		Check: func(path string) []string { return []string{"served", "-t", path} },
		Pause: func(context.Context) error { return nil },
	}
}

func (s *served) to(content string) error {
	return s.daemon().Reload(s.t.Context(), s, "web-g0", renderer.File{Path: configPath, Content: content})
}

// expect tells what is in place and what runs, and that nothing else is left.
func (s *served) expect(config, running string) {
	s.t.Helper()
	if got := s.Read(s.t, configPath); got != config || s.running != running {
		s.t.Errorf("%q is in place and %q runs; want %q and %q", got, s.running, config, running)
	}
	if files := s.Files(s.t); !slices.Equal(files, []string{configPath}) {
		s.t.Errorf("files: %v", files)
	}
}

func TestReloadChecksThenReplacesThenSignals(t *testing.T) {
	s := newServed(t)
	if err := s.to("new"); err != nil {
		t.Fatal(err)
	}
	s.expect("new", "new")
	var order []string
	for _, call := range s.Calls {
		for _, step := range []string{"push", "served -t", "mv -f", "kill", "rm -f"} {
			if strings.Contains(call, step) {
				order = append(order, step)
				break
			}
		}
	}
	if want := []string{"push", "served -t", "mv -f", "kill", "rm -f"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestReloadMayBeRepeated(t *testing.T) {
	s := newServed(t)
	for range 3 {
		if err := s.to("new"); err != nil {
			t.Fatal(err)
		}
		s.expect("new", "new")
	}
}

func TestARefusedConfigurationChangesNothing(t *testing.T) {
	s := newServed(t)
	err := s.to("broken")
	if !errors.Is(err, ErrRefused) || !strings.HasSuffix(err.Error(), "reload served in web-g0: the configuration is refused: unexpected word in "+configPath+":1") {
		t.Errorf("%v", err)
	}
	s.expect("old", "old")
}

func TestAConfigurationThatIsNotTakenIsPutBack(t *testing.T) {
	s := newServed(t)
	err := s.to("stuck")
	if !errors.Is(err, ErrNotTaken) || !strings.Contains(err.Error(), "kept the workers that it had; the end of /var/log/served.log: bind() failed: address in use") {
		t.Errorf("%v", err)
	}
	s.expect("old", "old")
}

func TestAWorkerHasToLastWhereTheOldOnesStay(t *testing.T) {
	s := newServed(t)
	s.lingers = true
	d := s.daemon()
	d.Settle = 15
	looks := 0
	s.After = func() {
		if strings.Contains(s.Calls[len(s.Calls)-1], "/proc/") && s.running == "shortlived" {
			if looks++; looks == 10 {
				s.running, s.worker, s.old = "old", 10, nil
			}
		}
	}
	err := d.Reload(t.Context(), s, "web-g0", renderer.File{Path: configPath, Content: "shortlived"})
	if !errors.Is(err, ErrNotTaken) {
		t.Errorf("%v", err)
	}
	s.expect("old", "old")

	if err := d.Reload(t.Context(), s, "web-g0", renderer.File{Path: configPath, Content: "new"}); err != nil {
		t.Fatal(err)
	}
	s.expect("new", "new")
}

func TestADaemonThatIsDownIsWaitedFor(t *testing.T) {
	s := newServed(t)
	s.Write(t, configPath, "broken")
	s.running = ""
	s.After = func() {
		if s.Read(t, configPath) == "new" {
			s.running = "new" // whatever starts the daemon has tried again
		}
	}
	if err := s.to("new"); err != nil {
		t.Fatal(err)
	}
	s.expect("new", "new")
}

func TestADaemonThatStaysDownIsAnError(t *testing.T) {
	s := newServed(t)
	s.running = ""
	if err := s.to("new"); !errors.Is(err, ErrNotTaken) || !strings.Contains(err.Error(), "nothing started one") {
		t.Errorf("%v", err)
	}
	s.expect("old", "")
}

func TestReloadAfterACrashAtAnyPoint(t *testing.T) {
	for _, next := range []string{"new", "newer"} {
		for at := 1; ; at++ {
			s := newServed(t)
			s.CrashAt = at
			err := s.to("new")
			if err == nil {
				if at < 5 {
					t.Fatalf("only %d calls", at)
				}
				break
			}
			if config := s.Read(t, configPath); config != "old" && config != "new" {
				t.Fatalf("crash at call %d leaves %q in place", at, config)
			}
			s.CrashAt = 0
			if err := s.to(next); err != nil {
				t.Fatalf("after a crash at call %d: %v", at, err)
			}
			s.expect(next, next)
		}
	}
}

func TestAfterACrashTheProvenConfigurationIsPutBack(t *testing.T) {
	s := newServed(t)
	s.After = func() {
		if s.Read(t, configPath) == "stuck" && s.CrashAt == 0 {
			s.CrashAt = len(s.Calls) + 1 // in place, not yet signalled
		}
	}
	if err := s.to("stuck"); !errors.Is(err, renderertest.ErrCrash) {
		t.Fatal(err)
	}
	s.After, s.CrashAt = nil, 0
	if err := s.to("stuck too"); !errors.Is(err, ErrNotTaken) {
		t.Fatal(err)
	}
	s.expect("old", "old")
}

func TestACancelledReloadIsBroughtToItsEnd(t *testing.T) {
	s := newServed(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.After = func() {
		if strings.Contains(s.Calls[len(s.Calls)-1], "mv -f") {
			cancel()
		}
	}
	if err := s.daemon().Reload(ctx, s, "web-g0", renderer.File{Path: configPath, Content: "new"}); err != nil {
		t.Fatal(err)
	}
	s.expect("new", "new")
}

func TestTheMasterIsTheParentOfItsLikes(t *testing.T) {
	cases := map[string]struct {
		stats string
		want  processes
	}{
		"none":         {"1 (init) S 0\n", processes{}},
		"check only":   {"9 (served) R 1\n", processes{}},
		"with workers": {"5 (served) S 1\n9 (served) S 5\n8 (served) S 5\n", processes{5, []int{9, 8}}},
		"and a check":  {"3 (served) R 1\n5 (served) S 1\n9 (served) S 5\n", processes{5, []int{9}}},
		"of a script":  {"2 (sh) S 1\n5 (served) S 2\n9 (served) S 5\n", processes{5, []int{9}}},
		"nonsense":     {"(served)\nx (served) S 1\n5 (served) S\n5 )served( S 1\n", processes{}},
	}
	for name, c := range cases {
		if got := parseProcesses(c.stats, "served"); got.master != c.want.master || !slices.Equal(got.workers, c.want.workers) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
