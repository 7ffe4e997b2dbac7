package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// launchTimeout bounds how long an instance may take until it has an address: it takes some 2 s.
const launchTimeout = 60 * time.Second

// Launch starts an instance on a member, or on one of a group ("@web"), and returns its address, which this machine and
// every other instance can reach. The image is an alias as Image takes it.
func (c *Cluster) Launch(t testing.TB, project, name, image, target string, options ...string) string {
	t.Helper()
	return c.LaunchImage(t, project, name, c.Image(t, image), target, options...)
}

// LaunchImage is Launch with an image that the cluster has, as ColdImage returns one.
func (c *Cluster) LaunchImage(t testing.TB, project, name, image, target string, options ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), launchTimeout)
	defer cancel()
	arguments := append([]string{"launch", image, name, "--project", project, "--target", target, "--quiet"}, options...)
	if _, err := c.Incus(ctx, arguments...); err != nil {
		t.Fatal(err)
	}
	return c.InstanceAddress(t, project, name)
}

// InstanceAddress waits until the instance has an IPv4 address, and returns it.
func (c *Cluster) InstanceAddress(t testing.TB, project, name string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), launchTimeout)
	defer cancel()
	for {
		address, err := c.instanceAddress(ctx, project, name)
		if err != nil {
			t.Fatal(err)
		}
		if address != "" {
			return address
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s has no address after %s", name, launchTimeout)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// instanceAddress returns the instance's address, empty while it has none.
func (c *Cluster) instanceAddress(ctx context.Context, project, name string) (string, error) {
	output, err := c.Incus(ctx, "query", "/1.0/instances/"+name+"/state?project="+project)
	if err != nil {
		return "", err
	}
	var state struct {
		Network map[string]struct {
			Addresses []struct{ Address, Family string }
		}
	}
	if err := json.Unmarshal([]byte(output), &state); err != nil {
		return "", fmt.Errorf("read the state of %s: %w", name, err)
	}
	for _, address := range state.Network["eth0"].Addresses {
		if address.Family == "inet" {
			return address.Address, nil
		}
	}
	return "", nil
}

// Exec runs a command inside an instance and returns what it printed on standard output.
func (c *Cluster) Exec(t testing.TB, project, name string, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), launchTimeout)
	defer cancel()
	output, err := c.Incus(ctx, append([]string{"exec", name, "--project", project, "--"}, command...)...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}
