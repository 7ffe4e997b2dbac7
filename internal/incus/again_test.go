package incus_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

func TestListThatTakesItsTimeIsAskedForAgain(t *testing.T) {
	lists := incustest.To(http.MethodGet, "/1.0/instances")
	for name, tc := range map[string]struct {
		held int // how many lists get no answer
		took time.Duration
	}{"at once": {0, 0}, "second": {1, 6 * time.Second}, "last": {4, 24 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := incustest.New(incustest.WithMembers("m1", "m2"))
				seen := 0
				release := server.Hold(func(r incustest.Request) bool {
					if lists(r) {
						seen++
					}
					return lists(r) && seen <= tc.held
				})
				began := time.Now()
				if _, err := server.Client(t).GetInstances(t.Context(), incus.InstancesFilter{}); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != tc.took {
					t.Errorf("it took %s, want %s", took, tc.took)
				}
				if n := server.Count(lists); n != tc.held+1 {
					t.Errorf("%d lists were asked for", n)
				}
				release()
				synctest.Wait()
			})
		})
	}
}

func TestListIsAskedForSoManyTimesAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := incustest.New()
		lists := incustest.To(http.MethodGet, "/1.0/instances")
		release := server.Hold(lists)
		time.AfterFunc(time.Minute, release)
		if _, err := server.Client(t).GetInstances(t.Context(), incus.InstancesFilter{}); err != nil {
			t.Error(err)
		}
		if n := server.Count(lists); n != 5 {
			t.Errorf("%d lists were asked for, want 5", n)
		}
		synctest.Wait()
	})
}
