package rollout_test

import (
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Somebody has unset or mangled what a proxy says of whom it is bound to. What it is rendered from still names the upstream.
func TestAProxyWhoseNoteIsGoneIsStillFollowedOrNamed(t *testing.T) {
	for name, note := range map[string]string{"unset": "", "mangled": "{"} {
		t.Run(name, func(t *testing.T) {
			followed(t, func(t *testing.T, s *sim) {
				err := s.server.Edit("proxy-1-g0", func(i *incus.Instance) {
					if i.Config[app.KeyUpstreams] = note; note == "" {
						delete(i.Config, app.KeyUpstreams)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				result, err := s.upgrade("1.1.0")
				told := err != nil && strings.Contains(err.Error(), "proxy-1-g0")
				for _, w := range result.Warnings {
					told = told || strings.Contains(w.Text, "proxy-1-g0")
				}
				if !told && len(s.broken) > 0 {
					t.Errorf("nothing was said (%v), and it leads to %v", err, s.leadsTo("proxy-1-g0"))
				}
			})
		})
	}
}
