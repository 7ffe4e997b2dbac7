package rollout

import (
	"context"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/version"
)

// steppedType is an App type by the name and of the class of a real one, with one file of configuration.
type steppedType struct {
	name  string
	class app.Class
}

func (s steppedType) Type() renderer.Type { return renderer.Type{Name: s.name, Class: s.class} }

func (steppedType) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	return spec, spec.AddFiles(renderer.File{Path: "/etc/db.conf", Content: a.Params.String("conf")})
}

func (steppedType) Healthy(context.Context, renderer.Look, renderer.App, renderer.Target) error {
	return nil
}

func (steppedType) Promote(_ context.Context, h renderer.Handover) (string, error) {
	return h.Blue.Instance, nil
}

var (
	etcdType     = steppedType{"etcd", app.QuorumMember}
	postgresType = steppedType{"postgres", app.Asymmetric}
)

// dbOf is an App of three members on an image that tells its version, with a configuration.
func dbOf(s steppedType, image, conf string) Wish {
	_, tag, _ := strings.Cut(image, "/")
	return Wish{
		App:      renderer.App{Name: "db", Type: s.name, Image: image, Version: tag, Replicas: 3, Params: renderer.Params{"conf": conf}},
		Replicas: app.Replicas{Count: 3},
	}
}

// planFrom works out the plan from one App to another, where each member was made as the App of that index in made says.
func planFrom(t *testing.T, s steppedType, former *Wish, now Wish, made ...Wish) Plan {
	t.Helper()
	o := Observation{App: "db", Members: map[string]*Member{}}
	for n, m := range now.Members() {
		was, err := Render(s, made[n])
		if err != nil {
			t.Fatal(err)
		}
		o.Members[m.Key] = &Member{Active: &Instance{Name: app.InstanceName("db", false, m.Key, 0), Running: true, Tags: app.Tags{
			App: "db", Type: s.name, Member: m.Key, Phase: app.Active, Spec: was[m.Key].Cold, Hot: was[m.Key].Hot,
			Version: made[n].App.Version, Image: "fingerprint of " + made[n].App.Image,
		}}}
	}
	now.Former = former
	rendered, err := Render(s, now)
	if err != nil {
		t.Fatal(err)
	}
	facts := Facts{Class: s.class}
	if former != nil {
		facts.FromVersion = former.App.Version
	}
	return Decide(o, now, rendered, facts)
}

func TestImageAndConfigurationOfAClusterChangeOneAfterTheOther(t *testing.T) {
	for _, s := range []steppedType{etcdType, postgresType} {
		old, updated := "db/15.18", "db/15.20"
		if s == etcdType {
			old, updated = "db/3.4.23", "db/3.5.16"
		}
		was := dbOf(s, old, "one")
		image, conf, two := dbOf(s, updated, "one"), dbOf(s, old, "two"), dbOf(s, updated, "two")
		hot := dbOf(s, updated, "one")
		hot.App.Description, hot.App.Limits = "another one", map[string]string{"limits.memory": "1GiB"}
		pinned := func(w Wish) Wish { w.Fingerprint = "fingerprint of " + w.App.Image; return w }
		for name, c := range map[string]struct {
			former  *Wish
			now     Wish
			made    [3]Wish
			refused bool
		}{
			"the image alone":                                   {&was, image, [3]Wish{was, was, was}, false},
			"the configuration alone":                           {&was, conf, [3]Wish{was, was, was}, false},
			"the image, and what changes in place":              {&was, hot, [3]Wish{was, was, was}, false},
			"both":                                              {&was, two, [3]Wish{was, was, was}, true},
			"both, and what was before isn't known":             {nil, two, [3]Wish{was, was, was}, false},
			"both, but all members have the image already":      {&was, two, [3]Wish{image, image, image}, false},
			"both, but all members have the configuration":      {&was, two, [3]Wish{conf, conf, conf}, false},
			"both, and one member has the image already":        {&was, two, [3]Wish{image, was, was}, true},
			"both, and one member is through":                   {&was, two, [3]Wish{two, was, was}, true},
			"the image, where an earlier run stopped half-way":  {&was, image, [3]Wish{image, image, was}, false},
			"back to the image of before":                       {&was, was, [3]Wish{image, image, was}, false},
			"back to it, and another configuration":             {&was, pinned(conf), [3]Wish{image, was, was}, true},
			"back to it, and another configuration, unpinned":   {&was, conf, [3]Wish{image, was, was}, false},
			"another configuration, where one has an older one": {&was, pinned(conf), [3]Wish{dbOf(s, old, "zero"), was, was}, false},
		} {
			t.Run(s.name+"/"+name, func(t *testing.T) {
				p := planFrom(t, s, c.former, c.now, c.made[:]...)
				if got := p.Strategy == Refused; got != c.refused {
					t.Fatalf("refused is %v: %s %q", got, p.Strategy, p.Reason)
				}
				if !c.refused {
					return
				}
				images := "image (" + old + " → " + updated + ")"
				if c.now.App.Image == old {
					images = "image (db-0-g0 has another one than " + old + ", from an earlier run)"
				}
				for _, part := range []string{images, "configuration (file /etc/db.conf)", "change together", "Take two applies: first image = ", "with all else as it was"} {
					if !strings.Contains(p.Reason, part) {
						t.Errorf("the plan is refused with %q, without %q", p.Reason, part)
					}
				}
			})
		}
	}
}

func TestOtherClassesChangeImageAndConfigurationAtOnce(t *testing.T) {
	for class, want := range map[app.Class]Strategy{app.Stateless: BlueGreen, app.LeaseGuarded: BlueGreen, app.ScaleOut: Drain} {
		s := steppedType{"other", class}
		was := dbOf(s, "db/1.0.0", "one")
		if p := planFrom(t, s, &was, dbOf(s, "db/1.1.0", "two"), was, was, was); p.Strategy != want {
			t.Errorf("class %s takes %s (%s), want %s", class, p.Strategy, p.Reason, want)
		}
	}
}

func TestARefusalOfTwoChangesNamesPartsAndNoValues(t *testing.T) {
	was, now := dbOf(etcdType, "db/3.4.23", "one"), dbOf(etcdType, "db/3.5.16", "canary")
	was.App.Environment = map[string]string{"TOKEN": "canary"}
	was.App.Profiles, now.App.Profiles = []string{"default"}, []string{"default", "lan"}
	now.App.Devices = map[string]map[string]string{"eth1": {"type": "nic", "network": "canary"}}
	now.App.Secrets = map[string]string{"token": "canary"} // those of before nobody knows any more
	p := planFrom(t, etcdType, &was, now, was, was, was)
	if want := "configuration (environment.TOKEN, device eth1, profiles, file /etc/db.conf)"; !strings.Contains(p.Reason, want) || strings.Contains(p.Reason, "canary") {
		t.Errorf("the plan is refused with %q; want %q in it and no values", p.Reason, want)
	}
	now = dbOf(etcdType, "db/3.5.16", "one")
	now.App.Secrets, now.App.SecretsVersion = map[string]string{"token": "canary"}, "2"
	if p, want := planFrom(t, etcdType, &was, now, was, was, was), "(environment.TOKEN, secrets_wo_version)"; !strings.Contains(p.Reason, want) {
		t.Errorf("the plan is refused with %q; want %q in it", p.Reason, want)
	}
}

func TestVersionRulesDecideTheStrategy(t *testing.T) {
	for _, c := range []struct {
		s        steppedType
		from, to string
		strategy Strategy
		change   version.Change
		words    string // of the refusal, or of the caution
	}{
		{postgresType, "db/15.18-0+deb12u1", "db/15.20-0+deb12u1", Switchover, version.Minor, ""},
		{postgresType, "db/15.18-0+deb12u1", "db/17.6-0+deb13u1", Refused, version.Major, "PostgreSQL 17 can't open the data of 15. Make a new App"},
		{steppedType{"postgres", app.ExclusiveHolder}, "db/15.18", "db/17.6", Refused, version.Major, "PostgreSQL 17 can't open"},
		{postgresType, "db/16.9", "db/16.4", Switchover, version.Downgrade, "older replica may fail"},
		{etcdType, "db/3.4.23-4", "db/3.5.16-4", Quorum, version.Minor, ""},
		{etcdType, "db/3.3.25+dfsg-6", "db/3.5.16-4", Refused, version.Minor, "skips 3.4. Take them in turn, each with an apply of its own: 3.4, 3.5"},
		{etcdType, "db/3.6.6", "db/3.5.26", Quorum, version.Downgrade, "etcdctl downgrade enable 3.5"},
		{etcdType, "db/3.5.16-4", "db/3.4.23-4", Refused, version.Downgrade, "can't join a cluster of 3.5"},
		{steppedType{"galera", app.QuorumMember}, "db/10.5.29", "db/10.11.14", Refused, version.Major, "skips 10.6"},
		{steppedType{"k8s-worker", app.ScaleOut}, "db/v1.31.4+k3s1", "db/latest", Drain, version.Unknown, ""},
		{etcdType, "db/3.5.16-4", "db/latest", Refused, version.Unknown, `the new version is not known: "latest" is not a version that can be compared: it doesn't begin with a number. Set version to what the new image holds`},
		{postgresType, "db/latest", "db/15.18", Refused, version.Unknown, "Set version to what runs now and apply that alone"},
		{postgresType, "db/", "db/15.18", Refused, version.Unknown, "the present version is not known. Set version to what runs now"},
	} {
		was := dbOf(c.s, c.from, "one")
		p := planFrom(t, c.s, &was, dbOf(c.s, c.to, "one"), was, was, was)
		if p.Strategy != c.strategy || p.Change != c.change {
			t.Errorf("%s %s → %s: a %s change by %s (%s), want %s by %s", c.s.name, c.from, c.to, p.Change, p.Strategy, p.Reason, c.change, c.strategy)
		}
		said := p.Caution
		if p.Strategy == Refused {
			said = p.Reason
		}
		if !strings.Contains(said, c.words) || c.words == "" && said != "" {
			t.Errorf("%s %s → %s says %q, want %q in it", c.s.name, c.from, c.to, said, c.words)
		}
	}
}

func TestAStepBeginsAtTheOldestMember(t *testing.T) {
	v34, v35, v36 := dbOf(etcdType, "db/3.4.23", "one"), dbOf(etcdType, "db/3.5.30", "one"), dbOf(etcdType, "db/3.6.6", "one")
	for name, c := range map[string]struct {
		now     Wish
		made    [3]Wish
		from    string
		refused bool
	}{
		"an earlier run stopped half-way, on":             {v35, [3]Wish{v35, v35, v34}, "3.4.23", false},
		"and back, since a cluster is what its oldest is": {v34, [3]Wish{v35, v35, v34}, "3.4.23", false},
		"and further, which skips a release for one":      {v36, [3]Wish{v35, v35, v34}, "3.4.23", true},
		"all are through though state says otherwise":     {v36, [3]Wish{v35, v35, v35}, "3.5.30", false},
		"and back from there, which is a downgrade":       {v34, [3]Wish{v35, v35, v35}, "3.5.30", true},
	} {
		p := planFrom(t, etcdType, &v34, c.now, c.made[:]...)
		if p.From != c.from || (p.Strategy == Refused) != c.refused {
			t.Errorf("%s: from %s, %s (%s)", name, p.From, p.Strategy, p.Reason)
		}
	}
}
