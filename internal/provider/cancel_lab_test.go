//go:build lab

package provider_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/load"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/terraform"
)

// terminal is where somebody applies App web ×2, and presses Ctrl-C.
type terminal struct {
	*configuration
	is, wished string // versions of the App; empty where there is none
	before     map[string]tagged
	visitors   *load.Load
	rows       []string
}

// tagged is what an instance says of itself.
type tagged struct{ member, phase, version, status string }

// interruption is Ctrl-C at one moment.
type interruption struct {
	verb, when string
	reached    func(d *terminal, now map[string]tagged) bool
	finishes   bool // the switch is behind it
	inShort    int  // how often it is pressed in the short form; 0 for none
	goesOn     bool // also in the short form the next apply is made before the next interruption
}

// candidate tells whether a member's new instance is there and as asked.
func candidate(member string, is func(tagged) bool) func(*terminal, map[string]tagged) bool {
	return func(d *terminal, now map[string]tagged) bool {
		for name, i := range now {
			if _, old := d.before[name]; !old && i.member == member && is(i) {
				return true
			}
		}
		return false
	}
}

func made(tagged) bool       { return true }
func runs(i tagged) bool     { return i.status == "Running" }
func switched(i tagged) bool { return i.phase == "active" }

var interruptions = []interruption{
	{"create", "while the first instance is made", candidate("0", made), false, 0, true},
	{"create", "while the instances are gated", candidate("1", runs), false, 1, true},
	{"upgrade", "while the first candidate is made", candidate("0", made), false, 0, false},
	{"upgrade", "after the switch of the first member", candidate("0", switched), false, 0, false},
	{"upgrade", "while the second candidate is gated", candidate("1", runs), false, 1, false},
	{"upgrade", "after the switch of the last member", candidate("1", switched), true, 1, true},
	{"upgrade", "while the first candidate is gated", candidate("0", runs), false, 2, true},
	{"destroy", "while instances stop", func(_ *terminal, now map[string]tagged) bool {
		for _, i := range now {
			if runs(i) {
				return len(now) < 2
			}
		}
		return true
	}, false, 1, true},
}

// TestLabInterruptedCLI presses Ctrl-C in a terminal that runs the CLI: both it and the provider get the signal, and the CLI
// tells the provider to stop, or at the second time ends it. The state is saved, also by a CLI that ends at once, no request
// fails, and the next apply goes on from there. With TORTURE=1 it does so once and twice at every moment.
func TestLabInterruptedCLI(t *testing.T) {
	s := newStage(t, "web/1.0.0", "web/1.1.0")
	built, err := builtProvider()
	if err != nil {
		t.Fatal(err)
	}
	d := &terminal{configuration: s.configuration(built)}
	torture := os.Getenv("TORTURE") != ""
	for _, i := range interruptions {
		for presses := 1; presses <= 2; presses++ {
			if torture || i.inShort == presses {
				d.interrupt(i, presses, torture)
			}
		}
	}
	t.Logf("when | Ctrl-C | exit code | said last | left\n%s", strings.Join(d.rows, "\n"))
}

// write wishes the App in a version. A lease that nobody gives back is waited for.
func (d *terminal) write(version string) {
	d.t.Helper()
	text := strings.Replace(d.web("web/"+version, 2), "provider \"homelabops\" {\n", "provider \"homelabops\" {\n  lease_wait = \"90s\"\n", 1)
	d.must(d.w.Write("main.tf", text))
	d.wished = version
}

func (d *terminal) interrupt(i interruption, presses int, torture bool) {
	d.t.Helper()
	verb := "apply"
	switch i.verb {
	case "create":
		if d.is != "" {
			d.mustRun("destroyed", d.w.Destroy)
			d.is = ""
		}
		d.write("1.0.0")
	case "upgrade":
		if d.visitors == nil {
			d.visitors = load.Start(context.Background(), "http://"+d.listen+"/", 2)
		}
		d.write(map[string]string{"1.0.0": "1.1.0", "1.1.0": "1.0.0"}[d.is])
	case "destroy":
		if d.is == "" {
			d.mustRun("created again", d.w.Apply)
		}
		verb = "destroy"
		d.checkVisitors("up to the destruction")
	}
	d.before = d.instances()
	out := d.pressed(i, presses, verb, "-auto-approve", "-input=false", "-no-color")
	state, left := d.stateMembers(), d.instances()
	d.rows = append(d.rows, strings.Join([]string{
		i.verb + " " + i.when, fmt.Sprint(presses), fmt.Sprintf("%d after %.1f s", out.Code, out.Took.Seconds()), saidLast(out.Text), lineOf(left),
	}, " | "))
	if i.finishes && presses == 1 {
		d.is = d.wished
	}
	switch {
	case presses == 1:
		d.stopped(i, out, state, left)
	case i.verb == "upgrade" && !slices.Equal(state, slices.Sorted(maps.Keys(d.before))): // the CLI has no other answer
		d.t.Errorf("%s %s, at once: state has %v, want what it had\n%s", i.verb, i.when, state, out.Text)
	}
	if !torture && !i.goesOn {
		return
	}
	again := d.w.Apply
	if i.verb == "destroy" {
		again = d.w.Destroy
	}
	d.mustRun("the next "+verb, again)
	d.is = d.wished
	if i.verb == "destroy" {
		d.is = ""
	}
	if now := d.instances(); !d.whole(now) {
		d.t.Errorf("after the next %s there is %s, want version %q", verb, lineOf(now), d.is)
	}
	if i.verb == "upgrade" {
		d.checkVisitors(i.when)
	}
}

// stopped checks what a run left that was told to stop once.
func (d *terminal) stopped(i interruption, out terraform.Output, state []string, left map[string]tagged) {
	d.t.Helper()
	said := "Error: reverted"
	switch {
	case i.finishes:
		said = "Warning: Finished after it was cancelled"
	case i.verb == "create":
		said = "run was cancelled"
	case i.verb == "destroy": // it may have come to its end
		said = ""
	}
	if !strings.Contains(strings.Join(strings.Fields(out.Text), " "), said) {
		d.t.Errorf("%s %s: the CLI does not say %q:\n%s", i.verb, i.when, said, out.Text)
	}
	if i.verb == "destroy" {
		for name, i := range left {
			if !runs(i) {
				d.t.Errorf("%s is %s, want it gone or running", name, i.status)
			}
		}
		return
	}
	if !d.whole(left) {
		d.t.Errorf("%s %s: there is %s, want version %q\n%s", i.verb, i.when, lineOf(left), d.is, out.Text)
	}
	if names := slices.Sorted(maps.Keys(left)); !slices.Equal(state, names) {
		d.t.Errorf("%s %s: state has %v, but there is %v\n%s", i.verb, i.when, state, names, out.Text)
	}
}

// whole tells whether the App is as it is taken to be: two running members of one version, or nothing.
func (d *terminal) whole(now map[string]tagged) bool {
	for _, i := range now {
		if i.version != d.is || !switched(i) || !runs(i) {
			return false
		}
	}
	return d.is == "" && len(now) == 0 || d.is != "" && len(now) == 2
}

func (d *terminal) mustRun(what string, run func(context.Context, ...string) (terraform.Output, error)) {
	d.t.Helper()
	out, err := run(d.t.Context())
	if err != nil || out.Code != 0 {
		d.t.Fatalf("%s: exit code %d (%v)\n%s", what, out.Code, err, out.Text)
	}
	d.t.Logf("%s: %.1f s", what, out.Took.Seconds())
}

func (d *terminal) checkVisitors(when string) {
	d.t.Helper()
	if d.visitors == nil {
		return
	}
	result := d.visitors.Stop()
	d.visitors = nil
	d.t.Logf("%s: %s", when, result)
	if result.Failed > 0 {
		d.t.Errorf("requests failed")
	}
}

// pressed runs the CLI in a process group of its own, as a shell does, and sends that group the signal.
func (d *terminal) pressed(i interruption, presses int, arguments ...string) terraform.Output {
	d.t.Helper()
	cmd := d.w.Command(context.Background(), arguments...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	d.must(cmd.Start())
	ended := make(chan struct{})
	var how error
	go func() {
		how = cmd.Wait()
		close(ended)
	}()
	end := func(why string) {
		d.t.Helper()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		d.t.Fatalf("%s %s: %s\n%s", i.verb, i.when, why, text.String())
	}
	for until := time.Now().Add(2 * time.Minute); !i.reached(d, d.instances()); time.Sleep(50 * time.Millisecond) {
		select {
		case <-ended:
			d.t.Fatalf("%s %s: it ended (%v) before that\n%s", i.verb, i.when, how, text.String())
		default:
		}
		if time.Now().After(until) {
			end("that does not come")
		}
	}
	begun := time.Now()
	for n := range presses {
		if n > 0 {
			time.Sleep(500 * time.Millisecond)
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // an error: it has ended by now
	}
	select {
	case <-ended:
	case <-time.After(3 * time.Minute):
		end("it goes on for three minutes after the signal")
	}
	return terraform.Output{Text: text.String(), Code: cmd.ProcessState.ExitCode(), Took: time.Since(begun)}
}

// instances are those of App web.
func (d *terminal) instances() map[string]tagged {
	d.t.Helper()
	var all []struct {
		Name, Status string
		Config       map[string]string
	}
	d.must(json.Unmarshal([]byte(d.incus("list", "--format", "json", "^web-")), &all))
	instances := map[string]tagged{}
	for _, i := range all {
		instances[i.Name] = tagged{i.Config[app.KeyMember], i.Config[app.KeyPhase], i.Config[app.KeyVersion], i.Status}
	}
	return instances
}

// stateMembers are the instances that are in state, which has to be there and readable.
func (d *terminal) stateMembers() []string {
	d.t.Helper()
	apps, err := d.w.Members(context.Background())
	d.must(err)
	var all []string
	for _, m := range apps["web"] {
		if m.Instance != "" {
			all = append(all, m.Instance)
		}
	}
	slices.Sort(all)
	return all
}

func lineOf(instances map[string]tagged) string {
	var all []string
	for name, i := range instances {
		all = append(all, strings.ToLower(name+" "+i.version+" "+i.phase+" "+i.status))
	}
	slices.Sort(all)
	return cmp.Or(strings.Join(all, ", "), "nothing")
}

// saidLast is what the provider said last, or else the CLI.
func saidLast(text string) string {
	said := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		ours := strings.HasPrefix(line, "Warning: Finished") || strings.HasPrefix(line, "Error: ") && line != "Error: execution halted"
		if ours || said == "" && strings.HasPrefix(line, "Error: ") {
			said = line
		}
	}
	return said
}
