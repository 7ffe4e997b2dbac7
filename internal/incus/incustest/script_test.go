package incustest_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// create makes a started instance.
func create(t *testing.T, client *incus.Client, name string) error {
	t.Helper()
	op, err := client.CreateInstance(t.Context(), incus.InstancesPost{Name: name, Start: true, Source: incus.InstanceSource{Type: "none"}})
	if err != nil {
		return err
	}
	return op.Wait(t.Context())
}

func TestNthCallFails(t *testing.T) {
	server := incustest.New()
	client := server.Client(t)
	server.FailNth(2, incustest.Mutating, http.StatusInternalServerError, "disk full")
	for i, name := range []string{"a", "b", "c"} {
		err := create(t, client, name)
		if failed := err != nil; failed != (i == 1) {
			t.Errorf("create %d: %v", i+1, err)
		}
	}
	if got := server.Names(); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("instances %v", got)
	}
}

func TestKilledProcessReachesNothingAnyMore(t *testing.T) {
	for _, executed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := incustest.New()
			client := server.Client(t)
			server.Kill(2, incustest.Mutating, executed)
			if err := create(t, client, "a"); err != nil {
				t.Fatal(err)
			}
			if err := create(t, client, "b"); !errors.Is(err, incus.ErrUnreachable) {
				t.Errorf("got %v, want unreachable", err)
			}
			if _, err := client.GetInstances(t.Context(), incus.InstancesFilter{}); !errors.Is(err, incus.ErrUnreachable) {
				t.Errorf("got %v, want unreachable", err)
			}
			if _, there := server.Instance("b"); there != executed {
				t.Errorf("the call was executed: %v, want %v", there, executed)
			}
			if !server.Killed() {
				t.Error("the kill is not reported")
			}
			server.Revive()
			if _, err := server.Client(t).GetInstances(t.Context(), incus.InstancesFilter{}); err != nil {
				t.Errorf("after the revival: %v", err)
			}
		})
	}
}

func TestNotFoundOnceIsOnce(t *testing.T) {
	server := incustest.New()
	client := server.Client(t)
	if err := create(t, client, "a"); err != nil {
		t.Fatal(err)
	}
	server.NotFoundOnce("/1.0/instances/a")
	if _, _, err := client.GetInstance(t.Context(), "a"); !errors.Is(err, incus.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
	if _, _, err := client.GetInstance(t.Context(), "a"); err != nil {
		t.Errorf("got %v the second time", err)
	}
}

func TestSlowOperationDoesItsWorkAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		client := server.Client(t)
		if err := create(t, client, "a"); err != nil {
			t.Fatal(err)
		}
		server.Slow(incustest.To(http.MethodPut, "/1.0/instances/*/state"), time.Hour)
		op, err := client.UpdateInstanceState(t.Context(), "a", incus.InstanceStatePut{Action: "stop"})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := server.Instance("a"); !got.Running() {
			t.Error("stopped before its time")
		}
		if err := op.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if got, _ := server.Instance("a"); got.Running() {
			t.Error("runs after its time")
		}
	})
}

func TestClosedServerLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		client := server.Client(t)
		server.Slow(incustest.To(http.MethodPost, "/1.0/instances"), time.Hour)
		if _, err := client.CreateInstance(t.Context(), incus.InstancesPost{Name: "a", Source: incus.InstanceSource{Type: "none"}}); err != nil {
			t.Fatal(err)
		}
		server.Close()
		if _, err := client.GetInstances(t.Context(), incus.InstancesFilter{}); !errors.Is(err, incus.ErrUnreachable) {
			t.Errorf("got %v, want unreachable", err)
		}
	})
}

func TestHooksDecideHowAnInstanceStartsAndStops(t *testing.T) {
	server := incustest.New()
	var seen []string
	server.OnStart = func(i incus.Instance) error {
		seen = append(seen, "start "+i.Name)
		if i.Name == "bad" {
			return errors.New("no init")
		}
		return nil
	}
	server.OnStop = func(i incus.Instance, how incus.InstanceStatePut) error {
		seen = append(seen, "stop "+i.Name)
		if !how.Force {
			return errors.New("timed out")
		}
		return nil
	}
	client := server.Client(t)
	if err := create(t, client, "good"); err != nil {
		t.Error(err)
	}
	if err := create(t, client, "bad"); !errors.Is(err, incus.ErrOperation) || !strings.Contains(err.Error(), "no init") {
		t.Errorf("got %v", err)
	}
	for _, force := range []bool{false, true} {
		op, err := client.UpdateInstanceState(t.Context(), "good", incus.InstanceStatePut{Action: "stop", Force: force})
		if err == nil {
			err = op.Wait(t.Context())
		}
		if (err == nil) != force {
			t.Errorf("force %v: got %v", force, err)
		}
	}
	if want := []string{"start good", "start bad", "stop good", "stop good"}; !slices.Equal(seen, want) {
		t.Errorf("got %v, want %v", seen, want)
	}
}

func TestInstancesGetAddressesOfTheirOwn(t *testing.T) {
	server := incustest.New()
	client := server.Client(t)
	for _, name := range []string{"a", "b"} {
		if err := create(t, client, name); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := server.Address("a"), server.Address("b"); a != "10.99.0.100" || b != "10.99.0.101" {
		t.Errorf("addresses %s and %s", a, b)
	}
}

func TestRequestsAreRecorded(t *testing.T) {
	server := incustest.New()
	client := server.Client(t)
	if err := create(t, client, "a"); err != nil {
		t.Fatal(err)
	}
	got := server.Requests()
	if len(got) != 2 || got[0].Method != http.MethodPost || !got[0].Mutating() || !strings.Contains(string(got[0].Body), `"name":"a"`) || !strings.HasSuffix(got[1].Path, "/wait") {
		t.Errorf("recorded %+v", got)
	}
	if n := server.Count(incustest.To("", "/1.0/operations/**")); n != 1 {
		t.Errorf("counted %d", n)
	}
}
