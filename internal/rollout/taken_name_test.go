package rollout_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

func TestAMemberIsTakenBackWhereTheNameOfAnotherIsTakenMeanwhile(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.server.Meanwhile(1, incustest.To(http.MethodGet, "/1.0/operations/*/wait"), func(ctx context.Context) bool {
			<-ctx.Done() // the run ends while it waits for web-0-g0
			return true
		})
		makes := func(r incustest.Request) bool {
			return incustest.To(http.MethodPost, "/1.0/instances")(r) && strings.Contains(string(r.Body), "web-1-g0")
		}
		s.server.Meanwhile(1, makes, func(ctx context.Context) bool {
			time.Sleep(10 * time.Second)
			made, err := s.Incus.CreateInstance(ctx, incus.InstancesPost{Name: "web-1-g0", Source: incus.InstanceSource{Type: "image", Alias: "web/1.0.0"}})
			if err == nil {
				err = made.Wait(ctx)
			}
			if err != nil {
				t.Error(err)
			}
			return true
		})
		_, err := s.create()
		if !errors.Is(err, rollout.ErrExists) {
			t.Errorf("it ended with %v", err)
		}
		if _, there := s.server.Instance("web-0-g0"); there {
			t.Errorf("web-0-g0 is there, although %v", err)
		}
		if _, there := s.server.Instance("web-1-g0"); !there {
			t.Error("the instance of somebody else is gone")
		}
	})
}
