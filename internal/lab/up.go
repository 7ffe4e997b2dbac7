package lab

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"text/template"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/tool"
)

// poolName is the storage pool of every lab; only the bridge needs a name that is unique on the machine.
const poolName = "default"

// addressLock is held while a lab chooses its addresses, so that two that come up at once don't choose the same.
const addressLock = "/var/tmp/homelabops-lab-addresses.lock"

// Up brings the lab in dir up and returns it. One that is up is returned as it is, one whose daemon died is started
// again, one that came up halfway is taken down first. What it does goes to log, a line each.
func Up(ctx context.Context, dir string, log io.Writer) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a lab makes bridges, mounts and containers: run it as root")
	}
	held, err := lock(ctx, state(dir).lock(), exclusive)
	if err != nil {
		return nil, fmt.Errorf("bring the lab up: %w", err)
	}
	defer held.unlock()

	found, err := open(dir)
	switch {
	case err == nil:
		return found, found.sweep(ctx, log)
	case errors.Is(err, errStopped):
		fmt.Fprintf(log, "the daemon of %s doesn't run: starting it again\n", dir)
		if err := found.revive(ctx); err != nil {
			return nil, err
		}
		return found, found.sweep(ctx, log)
	case errors.Is(err, errNoRecord), errors.Is(err, errIncomplete):
		if err := down(ctx, dir); err != nil {
			return nil, fmt.Errorf("remove what is left of an earlier lab: %w", err)
		}
	default:
		return nil, err
	}

	made := &Lab{state: state(dir), server: newServer(dir)}
	if err := made.bring(ctx, log); err != nil {
		return nil, errors.Join(fmt.Errorf("bring the lab up: %w", err), down(context.WithoutCancel(ctx), dir))
	}
	return made, nil
}

// newServer describes the one daemon of a lab.
func newServer(dir string) Server {
	return Server{Dir: state(dir).daemon(), Log: string(state(dir)) + "/incusd.log", CLI: state(dir).cli()}
}

// bridgeName is derived from the directory: two labs never share one, and what is left of a lab can be found by it.
// An interface's name has at most 15 characters.
func bridgeName(dir string) string {
	return fmt.Sprintf("hlab%x", sha256.Sum256([]byte(dir)))[:12]
}

func (l *Lab) bring(ctx context.Context, log io.Writer) error {
	if err := os.MkdirAll(string(l.state), 0o711); err != nil { // dnsmasq runs as nobody and reads files below
		return fmt.Errorf("make the state directory: %w", err)
	}
	if err := makeClientCertificate(l.state.clientCertificate(), l.state.clientKey()); err != nil {
		return err
	}
	if err := l.server.Start(ctx); err != nil {
		return err
	}
	addresses, err := lock(ctx, addressLock, exclusive)
	if err != nil {
		return err
	}
	defer addresses.unlock()
	if l.record, err = plan(ctx, l.state); err != nil {
		return err
	}
	if err := l.state.writeRecord(l.record); err != nil {
		return err
	}
	if err := l.initialise(ctx); err != nil {
		return err
	}
	if l.record.PoolDriver != "btrfs" {
		fmt.Fprintf(log, "the storage pool is of driver %s, which is 4 to 10 times slower: %s\n", l.record.PoolDriver, l.record.PoolReason)
	}
	if _, err := l.server.Run(ctx, "config", "trust", "add-certificate", l.state.clientCertificate(), "--name", "lab"); err != nil {
		return err
	}
	if err := l.routeForwards(ctx); err != nil {
		return err
	}
	version, err := l.server.Run(ctx, "query", "/1.0", "--raw")
	if err != nil {
		return err
	}
	l.record.IncusVersion = serverVersion(version)
	l.record.Complete = true
	if err := l.readCertificates(); err != nil {
		return err
	}
	return l.state.writeRecord(l.record)
}

// plan chooses everything that a lab could choose differently on another machine.
func plan(ctx context.Context, dir state) (Record, error) {
	subnet, err := freeSubnet(ctx)
	if err != nil {
		return Record{}, err
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return Record{}, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return Record{
		Address: listener.Addr().String(), Bridge: bridgeName(string(dir)), Subnet: subnet, Pool: poolName, PoolDriver: "btrfs",
	}, nil
}

// networkPreseed is what a fresh daemon is told first. dns.mode is none because Incus refuses two instances of one name on
// one network, also in different projects, as soon as it serves their names; tests in projects of their own use the same
// names all the time.
var networkPreseed = template.Must(template.New("network").Parse(`
config:
  core.https_address: {{.Address}}
  images.auto_update_interval: "0"
networks:
- name: {{.Bridge}}
  type: bridge
  config:
    ipv4.address: {{.Subnet.Gateway}}/{{.Subnet.Bridge.Bits}}
    ipv4.dhcp.ranges: {{.DHCP}}
    ipv4.dhcp.expiry: 10m
    ipv4.nat: "true"
    ipv6.address: none
    dns.mode: none
`))

// profilePreseed is what it is told when there is a pool.
var profilePreseed = template.Must(template.New("profile").Parse(`
profiles:
- name: default
  devices:
    root: {type: disk, path: /, pool: {{.Pool}}}
    eth0: {type: nic, name: eth0, network: {{.Bridge}}}
`))

// initialise gives the fresh daemon its listener, network, pool and profile.
func (l *Lab) initialise(ctx context.Context) error {
	if err := l.preseed(ctx, networkPreseed); err != nil {
		return err
	}
	if err := l.makePool(ctx); err != nil {
		return err
	}
	return l.preseed(ctx, profilePreseed)
}

// makePool makes a btrfs pool on a loop file, or one that is a directory where the machine can't do that.
func (l *Lab) makePool(ctx context.Context) error {
	size, err := poolSize(string(l.state))
	if err != nil {
		return err
	}
	_, failure := l.server.Run(ctx, "storage", "create", l.record.Pool, "btrfs", fmt.Sprintf("size=%dGiB", size))
	if failure == nil {
		return nil
	}
	l.record.PoolDriver, l.record.PoolReason = "dir", failure.Error()
	if _, err := l.server.Run(ctx, "storage", "create", l.record.Pool, "dir"); err != nil {
		return errors.Join(failure, err)
	}
	return nil
}

// preseed hands the daemon a document over its socket.
func (l *Lab) preseed(ctx context.Context, document *template.Template) error {
	var text strings.Builder
	if err := document.Execute(&text, struct {
		Record
		DHCP string
	}{l.record, l.record.Subnet.dhcpRange()}); err != nil {
		return fmt.Errorf("write the preseed: %w", err)
	}
	return amongOthers(ctx, func() error {
		_, err := l.server.runWithInput(ctx, text.String(), "admin", "init", "--preseed")
		return err
	})
}

// poolSize is how large the loop file of a btrfs pool may become, in GiB. It is sparse: space is taken as it is used.
func poolSize(dir string) (int, error) {
	var free syscall.Statfs_t
	if err := syscall.Statfs(dir, &free); err != nil {
		return 0, fmt.Errorf("look at the free space of %s: %w", dir, err)
	}
	available := int(free.Bavail * uint64(free.Bsize) >> 30)
	size := min(20, available*2/3)
	if size < 2 {
		return 0, fmt.Errorf("%s has %d GiB free, a lab needs 3", dir, available)
	}
	return size, nil
}

// routeForwards makes the listen addresses of network forwards local to this machine. A connection that the machine
// itself opens is redirected only where a route leads it to an address first; and as on a real server, an address that
// no forward serves refuses at once, so that a forward that is missing for an instant can't hide behind a retry.
func (l *Lab) routeForwards(ctx context.Context) error {
	return ip(ctx, "route", "replace", "local", l.record.Subnet.Forwards().String(), "dev", "lo")
}

// revive starts the daemon of a lab that was up before: after a crash, or after the machine restarted.
func (l *Lab) revive(ctx context.Context) error {
	if err := l.start(ctx); err != nil {
		return fmt.Errorf("start the lab's daemon again (`lab down` and `lab up` make a new one): %w", err)
	}
	return l.routeForwards(ctx)
}

func ip(ctx context.Context, arguments ...string) error {
	if output, err := tool.Command(ctx, "ip", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
