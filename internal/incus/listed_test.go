package incus_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

// TestAListOfWhichSomethingGoesIsAskedForAgain since the server answers then that something was not found, and nobody's thing is gone
// for that.
func TestAListOfWhichSomethingGoesIsAskedForAgain(t *testing.T) {
	for path, list := range map[string]func(c *incus.Client) error{
		"/1.0/storage-pools": func(c *incus.Client) error { _, err := c.GetStoragePools(t.Context()); return err },
		"/1.0/networks":      func(c *incus.Client) error { _, err := c.GetNetworks(t.Context()); return err },
	} {
		server := incustest.New()
		client := server.Client(t)
		server.FailNth(1, incustest.To(http.MethodGet, path), http.StatusNotFound, "Storage pool not found")
		if err := list(client); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		server.FailNth(0, incustest.To(http.MethodGet, path), http.StatusNotFound, "not found")
		if err := list(client); !errors.Is(err, incus.ErrNotFound) {
			t.Errorf("%s, each time: %v", path, err)
		}
	}
}
