package rollout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// secretsAfterAKill has a creation be killed between gate and promotion, corrects the secret under the same version, and
// creates again. It returns the steps of that, and the secret that the instance then has.
func (s *sim) secretsAfterAKill(first string) (steps []string, secret string) {
	s.t.Helper()
	s.wish.App.Secrets, s.wish.App.SecretsVersion = map[string]string{"token": "mistyped"}, "1"
	s.server.Kill(1, patchOf(first), false)
	if _, err := s.create(); err == nil {
		s.t.Fatal("the killed run ended well")
	}
	s.server.Revive()
	s.wish.App.Secrets = map[string]string{"token": "right"}
	result, err := s.create()
	if err != nil {
		s.t.Fatal(err)
	}
	got, _, _ := s.server.File(first, renderer.SecretsPath+"token")
	return result.Plan.Steps(), string(got)
}

func TestACandidateOfAnAppWithSecretsIsMadeAnewAndThePlanSaysSo(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		steps, secret := s.secretsAfterAKill("web-g0")
		if secret != "right" {
			t.Errorf("the instance has the secret %q", secret)
		}
		if want := "remove web-g0, which an earlier run left: it may have other secrets"; len(steps) != 2 || steps[0] != want || !strings.HasPrefix(steps[1], "create web-g0") {
			t.Errorf("the plan says %q", steps)
		}
	})
}

func TestACandidateThatMayHaveWrittenToVolumesKeepsItsSecretsAndThePlanSaysSo(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.exclusive()
		steps, secret := s.secretsAfterAKill("web-g0")
		if secret != "mistyped" {
			t.Errorf("the instance has the secret %q", secret)
		}
		if !slices.Contains(steps, "leave web-g0 the secrets that an earlier run gave it: raise secrets_wo_version if they have changed since") {
			t.Errorf("the plan says %q", steps)
		}
	})
}
