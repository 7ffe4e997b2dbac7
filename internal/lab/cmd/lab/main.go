// Command lab brings the private Incus that tests, benchmarks and the demo use up and down.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
)

const usage = `usage: lab up        bring the lab up and import the images that are missing from it, but for those built on demand
       lab down      remove it with all that belongs to it (-force: although tests are attached)
       lab status    say what is up; fails where nothing is
       lab env       print shell lines that point the incus CLI and the provider at it
       lab image     list the images; "lab image NAME ..." builds and imports these, "lab image all" all of them
       lab cluster ...  the cluster; "lab cluster" says more

The lab lives in ` + "$" + lab.EnvState + `, by default /var/tmp/homelabops-lab.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "lab: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	dir := lab.StateDir()
	verb, arguments := arguments[0], arguments[1:]
	if verb == "cluster" {
		return cluster(ctx, arguments)
	}
	flags := flag.NewFlagSet("lab "+verb, flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	force := flags.Bool("force", false, "take the lab down although tests are attached to it")
	bare := flags.Bool("bare", false, "import no images")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	switch verb {
	case "up":
		return up(ctx, dir, *bare)
	case "down":
		return lab.Down(ctx, dir, *force)
	case "status":
		return status(dir)
	case "env":
		return environment(dir)
	case "image":
		return images(ctx, dir, flags.Args())
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
		return nil
	}
}

func up(ctx context.Context, dir string, bare bool) error {
	start := time.Now()
	up, err := lab.Up(ctx, dir, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "lab: up in %s (%.1f s)\n", dir, time.Since(start).Seconds())
	if bare {
		return nil
	}
	return up.ImportUsual(ctx, os.Stderr)
}

func status(dir string) error {
	up, err := lab.Open(dir)
	if err != nil {
		return err
	}
	record := up.Record()
	fmt.Printf(`state directory   %s
daemon            pid %d, Incus %s, log %s
socket            %s
HTTPS             %s
pool              %s (%s)
network           %s (%s), forwards %s
`, up.Dir(), up.Server().Pid(), record.IncusVersion, up.Server().Log, up.Socket(), up.Address(), up.Pool(), record.PoolDriver,
		up.Network(), record.Subnet.Bridge(), record.Subnet.Forwards())
	return nil
}

func environment(dir string) error {
	up, err := lab.Open(dir)
	if err != nil {
		return err
	}
	printEnvironment([]variable{
		{"INCUS_DIR", up.Server().Dir},
		{"INCUS_CONF", up.Server().CLI},
		{"HOMELABOPS_ADDRESS", up.Address()},
		{"HOMELABOPS_CLIENT_CERTIFICATE", up.ClientCertificatePath()},
		{"HOMELABOPS_CLIENT_KEY", up.ClientKeyPath()},
		{"HOMELABOPS_SERVER_CERTIFICATE", up.ServerCertificatePath()},
	})
	return nil
}

// variable is one of a shell's environment.
type variable struct{ name, value string }

func printEnvironment(variables []variable) {
	for _, variable := range variables {
		fmt.Printf("export %s=%q\n", variable.name, variable.value)
	}
}
