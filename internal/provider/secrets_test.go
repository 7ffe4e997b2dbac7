package provider_test

import (
	"encoding/json"
	"strings"
	"testing"
)

const canary = "canary-6f1d"

func TestSecretsReachTheInstanceAsFilesAndAreNowhereElse(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	config := func(version int, secrets values) values {
		return web(values{"replicas": 2, "secrets_wo": secrets, "secrets_wo_version": version, "secrets_uid": 70})
	}
	first := config(1, values{"token": canary, "1/token": canary + "-of-1"})
	r.mustApply(first)
	r.mustBeSettled(first)
	for instance, want := range map[string]string{"web-0-g0": canary, "web-1-g0": canary + "-of-1"} {
		content, info, ok := w.incus.File(instance, "/etc/homelabops/secrets/token")
		if !ok || string(content) != want || info.Mode != 0o400 || info.UID != 70 {
			t.Errorf("%s has the secret as %q (%+v), want %q, 0400, of user 70", instance, content, info, want)
		}
	}
	held, err := json.Marshal(w.incus.Instances())
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"the state": r.state.String(), "private state": string(r.private), "the instances' configuration": string(held)} {
		if strings.Contains(text, canary) {
			t.Errorf("the secret is in %s", where)
		}
	}

	// Another secret alone can't be seen; another version is a new generation.
	if c := r.plan(config(1, values{"token": "another"})); !c.empty(r) {
		t.Error("another secret under the same version is planned as a change")
	}
	r.mustApply(config(2, values{"token": "another"}))
	r.expect("members.0.instance", "web-0-g1")
	if content, _, _ := w.incus.File("web-1-g1", "/etc/homelabops/secrets/token"); string(content) != "another" {
		t.Errorf("the new generation has the secret as %q, want the new one", content)
	}
}

func TestSecretsThatAreNotKnownYetChangeNothingOfAPlan(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	known := web(values{"secrets_wo": values{"token": canary}, "secrets_wo_version": 1})
	r.mustApply(known)
	if c := r.plan(web(values{"secrets_wo": later{}, "secrets_wo_version": 1})); !c.empty(r) || hasError(c.diagnostics) {
		t.Errorf("the plan is not empty, or fails: %s", texts(c.diagnostics))
	}
}
