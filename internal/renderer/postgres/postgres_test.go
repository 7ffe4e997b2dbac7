package postgres

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

func TestClassDependsOnReplicas(t *testing.T) {
	for replicas, want := range map[int]app.Class{1: app.ExclusiveHolder, 2: app.Asymmetric, 5: app.Asymmetric} {
		if got := (Renderer{}).Class(renderer.App{Replicas: replicas}); got != want {
			t.Errorf("%d replicas: class %s, want %s", replicas, got, want)
		}
	}
}

func TestNoHashHoldsPasswordsOrTheAddressesOfEtcd(t *testing.T) {
	r, a := Renderer{}, newApp(t, nil)
	known := renderertest.Desired(t, r, a)
	text := ""
	for _, f := range known.Files {
		switch f.Path {
		case secretsPath:
			if !f.Secret || f.Mode != 0o400 {
				t.Errorf("%s: %+v", f.Path, f)
			}
			var content struct {
				Postgresql struct{ Authentication map[string]map[string]string }
			}
			if err := yaml.Unmarshal([]byte(f.Content), &content); err != nil || content.Postgresql.Authentication["superuser"]["password"] != "sup: er'\"" {
				t.Errorf("%v, %v", content, err)
			}
		default:
			text += f.Content
		}
	}
	if strings.Contains(text, "sup: er") || !strings.Contains(known.Hot.Files[1].Content, "10.0.1.1:2379") {
		t.Error(text, known.Hot.Files)
	}
	a.Secrets, a.Upstreams = nil, nil
	unknown := renderertest.Desired(t, r, a)
	if known.ColdHash("", "") != unknown.ColdHash("", "") {
		t.Error("the hash depends on passwords")
	}
}

func TestWhatTakesAStartTakesANewGeneration(t *testing.T) {
	r := Renderer{}
	hashes := func(params map[string]any, replicas int) (cold, hot string) {
		a := newApp(t, params)
		a.Replicas = replicas
		spec := renderertest.Desired(t, r, a)
		return spec.ColdHash("", ""), spec.HotHash()
	}
	cold, hot := hashes(nil, 3)
	cases := map[string]struct {
		params   map[string]any
		replicas int
		cold     bool
	}{
		"shared_buffers":  {map[string]any{"postgresql": map[string]any{"shared_buffers": "1GB"}}, 3, true},
		"max_connections": {map[string]any{"postgresql": map[string]any{"Max_Connections": 200}}, 3, true},
		"port":            {map[string]any{"port": 5433}, 3, true},
		"work_mem":        {map[string]any{"postgresql": map[string]any{"work_mem": "8MB"}}, 3, false},
		"wal_keep_size":   {map[string]any{"postgresql": map[string]any{"wal_keep_size": "1GB"}}, 3, false},
		"pg_hba":          {map[string]any{"pg_hba": []any{"host all all 10.0.0.0/8 scram-sha-256"}}, 3, false},
		"synchronous":     {map[string]any{"synchronous": false}, 3, false},
		"one replica":     {nil, 1, false},
	}
	for name, c := range cases {
		newCold, newHot := hashes(c.params, c.replicas)
		if (newCold != cold) != c.cold || (newHot != hot) == c.cold {
			t.Errorf("%s: cold changed %v, hot changed %v", name, newCold != cold, newHot != hot)
		}
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	three := func(a *renderer.App) { a.Replicas = 3 }
	cases := map[string]struct {
		params map[string]any
		change func(a *renderer.App)
		path   string
		words  string
	}{
		"set by Patroni":   {map[string]any{"postgresql": map[string]any{"Port": 1}}, three, "params.postgresql", `has "Port", which Patroni sets itself`},
		"recovery":         {map[string]any{"postgresql": map[string]any{"recovery_target": "immediate"}}, three, "params.postgresql", "Patroni sets itself"},
		"twice":            {map[string]any{"postgresql": map[string]any{"work_mem": "1MB", "WORK_MEM": "2MB"}}, three, "params.postgresql", "twice"},
		"no name":          {map[string]any{"postgresql": map[string]any{"a b": "1"}}, three, "params.postgresql", "can't be the name"},
		"line break":       {map[string]any{"postgresql": map[string]any{"work_mem": "1\nport = 1"}}, three, "params.postgresql", "line break"},
		"hba":              {map[string]any{"pg_hba": []any{"all all trust"}}, three, "params.pg_hba", "begins with local, host"},
		"hba of two lines": {map[string]any{"pg_hba": []any{"host all all all reject\nhost all all all trust"}}, three, "params.pg_hba", "line break"},
		"ttl":              {map[string]any{"ttl": "10s"}, three, "params.ttl", `at least "20s"`},
		"times":            {map[string]any{"ttl": "20s"}, three, "params.ttl", "loop_wait + 2 × retry_timeout within ttl"},
		"scope":            {map[string]any{"scope": "a/b"}, three, "params.scope", "must be letters"},
		"lag":              {map[string]any{"max_lag": -1}, three, "params.max_lag", "0 or more"},
		"strict alone":     {map[string]any{"synchronous": false, "synchronous_strict": true}, three, "params.synchronous_strict", "leave out synchronous"},
		"own file":         {nil, func(a *renderer.App) { a.Replicas, a.Files = 3, []renderer.File{{Path: startPath}} }, `files["` + startPath + `"]`, "leave it out"},
		"no volume":        {nil, func(a *renderer.App) { a.Replicas = 1 }, "volumes", "outlives an instance only on a volume"},
		"shared volume": {nil, func(a *renderer.App) {
			a.Replicas, a.Volumes = 3, []renderer.Volume{{Name: "data", Path: "/var/lib/postgresql", Shared: true}}
		}, "volumes", "needs data of its own"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			problems := renderertest.Problems(Renderer{}, c.params, func(a *renderer.App) {
				a.Upstreams = newApp(t, nil).Upstreams
				c.change(a)
			})
			if len(problems) != 1 || problems[0].Path != c.path || !strings.Contains(problems[0].Detail, c.words) {
				t.Errorf("%v", problems)
			}
		})
	}
	if problems := renderertest.Problems(Renderer{}, nil, three); len(problems) != 1 || problems[0].Path != "upstreams" {
		t.Error("without etcd:", problems)
	}
}

func TestSlotsAreThereForMembersThatAreGone(t *testing.T) {
	for want, given := range map[string]map[string]any{slots: nil, "20": {"Max_Replication_Slots": "20"}} {
		a := newApp(t, map[string]any{"postgresql": given})
		if got := coldWanted(a)["max_replication_slots"]; got != want {
			t.Errorf("with %v the cluster is to have %s slots, want %s", given, got, want)
		}
	}
}

func TestAccessRulesAreWrittenWithSpacesOrTabs(t *testing.T) {
	for _, rule := range []string{"host all all 10.0.0.0/8 scram-sha-256", "hostssl\tall\tall\tall\tscram-sha-256"} {
		if err := checkRules([]any{rule}); err != nil {
			t.Error(err)
		}
	}
}

func TestPasswordsArePlain(t *testing.T) {
	good := map[string]string{"superuser": `it's "b\ad": $(x)`, "replication": "b"}
	if problems := renderer.CheckSecrets(Renderer{}.Type(), good); len(problems) > 0 {
		t.Error(problems)
	}
	for _, name := range []string{"superuser", "replication", "restapi"} {
		for value, words := range map[string]string{"canary\n": " has a line break", "canaryü": " that is not ASCII"} {
			bad := map[string]string{"superuser": "a", "replication": "b"}
			bad[name] = value
			problems := renderer.CheckSecrets(Renderer{}.Type(), bad)
			if len(problems) != 1 || !strings.Contains(problems[0].Detail, name) || !strings.Contains(problems[0].Detail, words) || strings.Contains(problems[0].Detail, "canary") {
				t.Errorf("%s: %v", name, problems)
			}
		}
	}
}
