package keepalived

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// pair is two instances: of blue is told how often it still shows the address, of green what its keepalived is.
type pair struct {
	shows  int
	state  []string // one look after the other; the last stays
	none   bool     // no keepalived runs
	pushed map[string]string
	ran    []string
}

func (p *pair) PushFile(_ context.Context, instance string, f renderer.File) error {
	p.pushed[instance+" "+f.Path] = f.Content
	return nil
}

func (p *pair) Exec(_ context.Context, instance string, post incus.ExecPost) (incus.ExecResult, error) {
	p.ran = append(p.ran, instance+": "+strings.Join(post.Command, " "))
	switch {
	case post.Command[0] == "ip" && p.shows > 0:
		p.shows--
		return incus.ExecResult{Stdout: []byte("2: eth0    inet 192.0.2.7/24 scope global secondary eth0\n")}, nil
	case post.Command[0] == "cat" && len(p.state) > 0:
		state := p.state[0]
		p.state = p.state[min(1, len(p.state)-1):]
		return incus.ExecResult{Stdout: []byte(state + "\n")}, nil
	case post.Command[0] == "sh" && p.none:
		return incus.ExecResult{ExitCode: 1, Stderr: []byte("sh: invalid number ''")}, nil
	}
	return incus.ExecResult{}, nil
}

func handover(p *pair, generation int) renderer.Handover {
	p.pushed = map[string]string{}
	return renderer.Handover{
		App:  renderer.App{Floating: &renderer.Floating{Address: "192.0.2.7/24", Interface: "eth0", Router: 51}},
		Blue: renderer.Target{Instance: "lb-g6"}, Green: renderer.Target{Instance: "lb-g7"}, Generation: generation, Machine: p,
	}
}

func TestALaterGenerationTakesTheAddressOverAndBlueIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pair{shows: 2, state: []string{"", "FAULT", "BACKUP", "MASTER"}}
		if err := Promote(t.Context(), handover(p, 7)); err != nil {
			t.Fatal(err)
		}
		if got := p.pushed["lb-g7 /etc/keepalived/priority.conf"]; got != "$PRIORITY=107\n" || len(p.pushed) != 1 {
			t.Errorf("pushed %v, want the priority of green alone", p.pushed)
		}
		if p.shows != 0 {
			t.Errorf("blue had the address still when the promotion was through")
		}
		for _, command := range p.ran {
			if strings.HasPrefix(command, "lb-g6") && !strings.Contains(command, "ip -o addr show") {
				t.Errorf("in blue was run: %s", command)
			}
		}
	})
}

func TestWhereBlueKeepsTheAddressItsStopWillMoveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := Promote(t.Context(), handover(&pair{shows: 1000, state: []string{"BACKUP"}}, 7)); err != nil {
			t.Error(err)
		}
	})
}

func TestAFirstInstanceIsWaitedForUntilTheAddressIsSomewhere(t *testing.T) {
	for last, want := range map[string]int{"MASTER": 3, "BACKUP": 14} {
		synctest.Test(t, func(t *testing.T) {
			p := &pair{state: []string{"FAULT", "BACKUP", last}}
			h := handover(p, 0)
			h.Blue = renderer.Target{}
			if err := Promote(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			if looks := len(p.ran) - 1; looks != want {
				t.Errorf("after %s it was looked at %d times, want %d", last, looks, want)
			}
		})
	}
}

func TestGreenThatCanNotHoldTheAddressIsNoHolder(t *testing.T) {
	for words, p := range map[string]*pair{
		"none runs (sh: invalid number ''): the image must bring keepalived": {none: true},
		"last seen: FAULT":            {state: []string{"BACKUP", "FAULT"}, shows: 1000},
		"last seen: it has not begun": {},
	} {
		synctest.Test(t, func(t *testing.T) {
			if err := Promote(t.Context(), handover(p, 7)); err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "lb-g7") {
				t.Errorf("%v, want %q", err, words)
			}
		})
	}
}

func TestWhoGoesGivesTheAddressAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pair{shows: 3}
		h := handover(p, 7)
		if err := Yield(t.Context(), p, *h.App.Floating, "lb-g6"); err != nil {
			t.Fatal(err)
		}
		if p.pushed["lb-g6 /etc/keepalived/priority.conf"] != Candidate().Content || p.shows != 0 {
			t.Errorf("pushed %v; the address was seen for %d looks more", p.pushed, p.shows)
		}
		// The last one keeps it.
		if err := Yield(t.Context(), &pair{shows: 1000, pushed: map[string]string{}}, *h.App.Floating, "lb-g6"); err != nil {
			t.Error(err)
		}
	})
}

func TestPrioritiesAreThoseThatVRRPHas(t *testing.T) {
	for generation := range 1000 {
		p := &pair{state: []string{"MASTER"}}
		if err := Promote(t.Context(), handover(p, generation)); err != nil {
			t.Fatal(err)
		}
		n := strings.TrimSuffix(strings.TrimPrefix(p.pushed["lb-g7 /etc/keepalived/priority.conf"], "$PRIORITY="), "\n")
		if len(n) != 3 || n < "100" || n > "254" {
			t.Fatalf("generation %d has priority %s, want 100 to 254", generation, n)
		}
	}
	if Candidate().Content != "$PRIORITY=10\n" {
		t.Errorf("a candidate begins with %q", Candidate().Content)
	}
}

func TestConfigNamesTheAddressAndTheScripts(t *testing.T) {
	files := Files(renderer.Floating{Address: "fd00::7/64", Interface: "eth0", Router: 51}, "haproxy")
	for _, want := range []string{"fd00::7/64 dev eth0", "native_ipv6", "virtual_router_id 51", "include /etc/keepalived/priority.conf"} {
		if !strings.Contains(files[0].Content, want) {
			t.Errorf("%q is missing in\n%s", want, files[0].Content)
		}
	}
	for _, script := range files[1:] {
		if !strings.Contains(files[0].Content, `"`+script.Path+`"`) || script.Mode != 0o755 {
			t.Errorf("%s with mode %o is no script of\n%s", script.Path, script.Mode, files[0].Content)
		}
	}
}

// The script looks at the processes of this machine.
func TestTheScriptSeesTheProcess(t *testing.T) {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	for process, want := range map[string]int{strings.TrimSpace(string(comm)): 0, "no-such-process": 1} {
		files := Files(renderer.Floating{}, process)
		at := slices.IndexFunc(files, func(f renderer.File) bool { return f.Path == servesPath })
		command := exec.Command("sh", "-c", files[at].Content)
		if out, _ := command.CombinedOutput(); command.ProcessState.ExitCode() != want || len(out) > 0 {
			t.Errorf("for %s it exits with %d and says %q", process, command.ProcessState.ExitCode(), out)
		}
	}
}
