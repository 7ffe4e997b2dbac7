// Command demo shows the provider's main job on a private real Incus: an App of two members is created, upgraded under
// load, and survives a bad image. It cleans up after itself; KEEP=1 leaves everything running.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/load"
)

// limit bounds the whole demo, so that a fault ends it with a message and not with a hang.
const limit = 4 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	begin := time.Now()
	keep := os.Getenv("KEEP") == "1"
	l, ours, err := openLab(ctx)
	if err != nil {
		return err
	}
	if ours && !keep {
		defer func() {
			after, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer stop()
			if down := lab.Down(after, l.Dir(), true); err == nil {
				err = down
			}
		}()
	}
	for _, alias := range []string{"web/1.0.0", "web/1.1.0", "web/2.0.0-bad"} {
		if err := l.Import(ctx, alias, os.Stderr); err != nil {
			return err
		}
	}
	a, err := newApp(ctx, l)
	if err != nil {
		return err
	}
	if !keep {
		defer a.cleanUp(context.WithoutCancel(ctx))
	}
	if err := story(ctx, a, "http://"+a.listen+"/"); err != nil {
		return err
	}
	fmt.Printf("\nDone in %s.\n", time.Since(begin).Round(time.Second))
	if keep {
		fmt.Print(lookAround(l, a))
	}
	return nil
}

// openLab attaches to the lab that is up, or brings a private one up.
func openLab(ctx context.Context) (l *lab.Lab, ours bool, err error) {
	if l, err := lab.Open(lab.StateDir()); err == nil {
		return l, false, nil
	}
	l, err = lab.Up(ctx, lab.StateDir(), os.Stderr)
	return l, true, err
}

// story is what the demo shows, and fails where what it shows did not come true.
func story(ctx context.Context, a *app, url string) error {
	var t table
	created, err := a.rollOut(ctx, "web/1.0.0")
	if err != nil {
		return err
	}
	t.row("create web/1.0.0, 2 members", created.took, "", "now "+created.members)

	requests := load.Start(ctx, url, 4)
	upgraded, err := a.rollOut(ctx, "web/1.1.0")
	seen := requests.Stop()
	if err != nil {
		return err
	}
	t.row("upgrade to web/1.1.0", upgraded.took, traffic(seen), "now "+upgraded.members)
	if seen.Failed > 0 {
		return fmt.Errorf("requests failed during the upgrade: %s", seen)
	}

	requests = load.Start(ctx, url, 4)
	bad, err := a.rollOut(ctx, "web/2.0.0-bad")
	seen = requests.Stop()
	if err == nil {
		return fmt.Errorf("the bad image was rolled out")
	}
	t.row("upgrade to web/2.0.0-bad", bad.took, traffic(seen), "reverted, still "+bad.members)
	if seen.Failed > 0 {
		return fmt.Errorf("requests failed during the bad upgrade: %s", seen)
	}
	pending, err := a.pending(ctx, "web/2.0.0-bad")
	if err != nil {
		return err
	}
	t.row("plan again", pending.took, "", "shows the same change again: "+pending.text)

	fmt.Println()
	t.print(os.Stdout)
	fmt.Printf("\nWhat Terraform said of the bad image:\n%s\n", indent(errorText(bad.text)))
	return nil
}

func traffic(r load.Result) string { return fmt.Sprintf("%d sent, %d failed", r.Sent, r.Failed) }

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

func lookAround(l *lab.Lab, a *app) string {
	return fmt.Sprintf(`
Everything is left running. To look around:
  eval "$(go run ./internal/lab/cmd/lab env)" && incus list
  curl http://%s/
  cd %s && TF_CLI_CONFIG_FILE=terraform.rc %s plan
To remove it:
  cd %s && TF_CLI_CONFIG_FILE=terraform.rc %s destroy && rm -r %s
  go run ./internal/lab/cmd/lab down   # in this folder, where the demo has brought the Incus up
`, a.listen, a.Dir, a.CLI, a.Dir, a.CLI, a.Dir)
}
