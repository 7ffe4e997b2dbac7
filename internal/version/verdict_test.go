package version

import (
	"strings"
	"testing"
)

// step is one line of a table: a step with real versions, and what is to be said of it. words are parts of the caution of an
// allowed step, none where there must be no caution, and parts of reason and way out of a refused one.
type step struct {
	from, to string
	allowed  bool
	words    []string
}

const (
	yes = true
	no  = false
)

func words(parts ...string) []string { return parts }

func checkSteps(t *testing.T, appType string, steps []step) {
	t.Helper()
	for _, s := range steps {
		v := CheckStep(appType, s.from, s.to)
		said := v.Caution + v.Refusal()
		if v.Allowed != s.allowed {
			t.Errorf("%s %s → %s: allowed is %v (%s)", appType, s.from, s.to, v.Allowed, said)
			continue
		}
		if len(s.words) == 0 && said != "" {
			t.Errorf("%s %s → %s says %q, want nothing", appType, s.from, s.to, said)
		}
		for _, part := range s.words {
			if !strings.Contains(said, part) {
				t.Errorf("%s %s → %s says %q, without %q", appType, s.from, s.to, said, part)
			}
		}
		if !v.Allowed && (v.Reason == "" || v.WayOut == "") {
			t.Errorf("%s %s → %s is refused without a reason or a way out: %+v", appType, s.from, s.to, v)
		}
	}
}

func TestPostgresStaysWithinItsMajorVersion(t *testing.T) {
	major := words("replication can't cross", "new App", "dump and restore", "logical replication", "pg_upgrade is not offered")
	checkSteps(t, "postgres", []step{
		{"15.18-0+deb12u1", "15.20-0+deb12u1", yes, nil},
		{"15.18-1.pgdg120+1", "15.20-1.pgdg120+1", yes, nil},
		{"16.3", "16.4", yes, nil},
		{"16.3", "16.12", yes, nil},
		{"16.3-alpine3.20", "16.3-bookworm", yes, nil},
		{"16.4", "16.4", yes, nil},
		{"9.6.3", "9.6.24", yes, nil},
		{"16.9", "16.4", yes, words("16.4 is older than 16.9", "replica may fail to read")},
		{"15.20-0+deb12u1", "15.18-0+deb12u1", yes, words("is older")},

		{"16.4", "17.0", no, append(major, "PostgreSQL 17 can't open the data of 16")},
		{"15.18-0+deb12u1", "17.6-0+deb13u1", no, major},
		{"13.22-0+deb11u1", "15.14-0+deb12u1", no, major},
		{"17.6-0+deb13u1", "15.18-0+deb12u1", no, append(major, "PostgreSQL 15 can't open the data of 17")},
		{"9.5.25", "9.6.0", no, append(major, "9.6 can't open the data of 9.5")},
		{"9.6.24", "10.0", no, major},
		{"16beta1", "16beta2", no, words("pre-releases don't share a data format")},
		{"16rc1", "16.0", no, words("pre-releases")},
		{"18~rc1-1", "18.0-1", no, words("pre-releases")},
		{"16rc1", "16rc1-alpine", yes, nil},
	})
}

func TestEtcdTakesOneMinorReleaseAtATime(t *testing.T) {
	checkSteps(t, "etcd", []step{
		{"3.4.23-4", "3.4.30-1", yes, nil},
		{"3.4.23-4+b6", "3.5.16-4", yes, nil},
		{"3.5.16-4", "3.5.30-1", yes, nil},
		{"3.5.30", "3.5.16", yes, nil},
		{"v3.5.26", "v3.6.0", yes, nil},
		{"v3.6.6", "v3.7.0", yes, nil},
		{"3.5.26", "3.6.0-rc.3", yes, words("pre-release")},
		{"3.6.0-rc.3", "3.6.0", yes, nil},

		{"3.3.25+dfsg-6", "3.5.16-4", no, words("one minor release at a time", "skips 3.4", "3.4, 3.5")},
		{"3.4.23-4", "3.6.0", no, words("skips 3.5", "in turn", "3.5, 3.6")},
		{"3.2.26+dfsg-3", "3.6.0", no, words("skips 3.3, 3.4, 3.5", "3.3, 3.4, 3.5, 3.6")},
		{"3.5.16-4", "3.6.0", no, words("learners", "Take 3.5.26 or a later release of 3.5 first, then 3.6.0")},
		{"v3.5.25", "v3.6.6", no, words("3.5.26")},
		{"3.5.30", "3.99999999999.0", no, words("skips 3.6, …, 3.99999999998")},
		{"2.3.8", "3.0.0", no, words("no step is known between etcd's major versions", "snapshot")},

		{"v3.7.0", "v3.6.6", yes, words("`etcdctl downgrade enable 3.6`", "storage version 3.6.0")},
		{"v3.6.6", "v3.5.26", yes, words("before the apply", "`etcdctl downgrade validate 3.5`", "`etcdctl downgrade enable 3.5`")},
		{"3.5.30-1", "3.4.32", yes, words("--next-cluster-version-compatible", "authentication")},
		{"3.5.16-4", "3.4.23-4", no, words("before 3.4.32 can't join a cluster of 3.5", "Take 3.4.32 or a later release of 3.4")},
		{"3.6.6", "3.4.34", no, words("goes down one minor release at a time", "skips 3.5", "3.5, 3.4")},
		{"3.4.23-4", "3.3.25+dfsg-6", no, words("no way back from 3.4 to 3.3", "snapshot that etcd 3.3 has taken")},
		{"3.5.16-4", "3.3.25+dfsg-6", no, words("no way back from 3.5 to 3.3")},
	})
}

func TestGaleraTakesOneReleaseSeriesAtATime(t *testing.T) {
	checkSteps(t, "galera", []step{
		{"1:10.11.6-0+deb12u1", "1:10.11.14-0+deb12u2", yes, nil},
		{"1:10.11.14-0+deb12u2", "1:10.11.6-0+deb12u1", yes, nil},
		{"10.11.14", "1:10.11.14-0+deb12u2", yes, nil},
		{"10.5.29", "10.6.22", yes, nil},
		{"10.6.22", "10.11.14", yes, nil}, // the next that is maintained for long
		{"10.6.22", "10.7.8", yes, nil},   // the very next
		{"10.8.8", "10.11.14", yes, nil},
		{"10.11.14", "11.0.6", yes, nil},
		{"10.11.14", "11.4.8", yes, nil},
		{"1:11.4.5-1", "1:11.8.3-0+deb13u1", yes, nil},
		{"11.8.6", "12.3.2", yes, nil},
		{"12.3.2", "13.0.1", yes, nil},
		{"13.0.1", "13.1.1", yes, nil},
		{"11.8.5-2", "11.8.6-3", yes, nil}, // MariaDB Enterprise

		{"1:10.5.29-0+deb11u1", "1:10.11.14-0+deb12u2", no, words("10.5 → 10.11 skips 10.6", "in turn", "10.6, 10.11")},
		{"1:10.11.14-0+deb12u2", "1:11.8.3-0+deb13u1", no, words("10.11 → 11.8 skips 11.4", "11.4, 11.8")},
		{"10.5.29", "11.8.3", no, words("skips 10.6, 10.11, 11.4", "10.6, 10.11, 11.4, 11.8")},
		{"10.6.22", "10.8.8", no, words("the one after 10.6 is 10.7, not 10.8", "Take 10.7")},
		{"10.5.29", "10.8.8", no, words("skips 10.6", "each with an apply of its own: 10.6")},
		{"12.3.2", "13.1.1", no, words("the one after 12.3 is 13.0, not 13.1")},
		{"13.0.1", "14.0.1", no, words("Take 13.1")},

		{"1:10.11.14-0+deb12u2", "1:10.5.29-0+deb11u1", no, words("no way back", "10.11 → 10.5", "dump")},
		{"11.8.3", "11.4.8", no, words("no way back")},
	})
}

func TestAControlPlaneTakesOneMinorReleaseUpAtATime(t *testing.T) {
	checkSteps(t, "k8s-control-plane", []step{
		{"v1.30.8+k3s1", "v1.31.4+k3s1", yes, nil},
		{"v1.31.4+k3s1", "v1.31.4+k3s2", yes, nil},
		{"v1.31.4", "v1.31.2", yes, nil},
		{"v1.31.4", "v1.32.0-rc.1", yes, words("pre-release")},
		{"1.31.4-1.1", "1.32.0-1.1", yes, nil}, // pkgs.k8s.io
		{"v1.29.12+rke2r1", "v1.31.4+rke2r1", no, words("skips 1.30", "1.30, 1.31")},
		{"v1.31.4+k3s1", "v1.30.8+k3s1", no, words("no way back from 1.31 to 1.30", "backup of its etcd")},
		{"v1.31.4", "v2.0.0", no, words("major versions")},
	})
}

func TestAWorkerMayJumpAsFarAsOneControlPlaneBears(t *testing.T) {
	checkSteps(t, "k8s-worker", []step{
		{"v1.30.8+k3s1", "v1.31.4+k3s1", yes, nil},
		{"v1.28.15", "v1.31.4", yes, nil},
		{"v1.31.4", "v1.28.15", yes, nil},
		{"v1.27.16", "v1.31.4", no, words("no control plane serves workers of both", "one of 1.27 may be 3 minor releases behind, and is 4", "by way of 1.30")},
		{"v1.31.4", "v1.27.16", no, words("by way of 1.30")},
		{"v1.22.17", "v1.25.16", no, words("one of 1.22 may be 2 minor releases behind")},
		{"v1.31.4", "v2.0.0", no, words("major versions")},
	})
}

func TestSkewOfAWorkerAndItsControlPlane(t *testing.T) {
	for _, c := range []struct {
		controlPlane, worker string
		allowed              bool
		words                []string
	}{
		{"v1.31.4+k3s1", "v1.31.4+k3s1", yes, nil},
		{"v1.31.2", "v1.31.4", yes, nil}, // patch releases don't count
		{"v1.31.4", "v1.28.15", yes, nil},
		{"v1.31.4", "v1.27.16", no, words("at most 3 minor releases older", "and is 4", "Take the worker to 1.28 or later first")},
		{"v1.26.15", "v1.24.17", yes, nil},
		{"v1.27.16", "v1.24.17", no, words("at most 2 minor releases older", "and is 3", "1.25 or later")},
		{"v1.30.8", "v1.31.4", no, words("must not be newer", "Take the control plane to 1.31 first")},
		{"v2.0.0", "v1.31.4", no, words("major versions")},
		{"latest", "v1.31.4", yes, words("version of the control plane", `"latest"`)},
		{"v1.31.4", "", yes, words("version of the worker")},
	} {
		v := Skew(c.controlPlane, c.worker)
		said := v.Caution + v.Refusal()
		if v.Allowed != c.allowed || len(c.words) == 0 && said != "" {
			t.Errorf("Skew(%s, %s) = %v, %q", c.controlPlane, c.worker, v.Allowed, said)
		}
		for _, part := range c.words {
			if !strings.Contains(said, part) {
				t.Errorf("Skew(%s, %s) says %q, without %q", c.controlPlane, c.worker, said, part)
			}
		}
	}
}

func TestPrometheusCanNotGoBackToWhatDoesNotReadItsData(t *testing.T) {
	checkSteps(t, "prometheus", []step{
		{"2.42.0+ds-5+b5", "2.53.3+ds1-4", yes, nil},
		{"2.53.3+ds1-4", "2.42.0+ds-5+b5", yes, nil},
		{"2.55.1", "3.5.0", yes, nil},
		{"3.5.0", "2.55.1", yes, nil},
		{"v3.5.0", "v2.53.5", yes, nil},
		{"3.5.0", "3.4.2", yes, nil},
		{"2.53.3+ds1-4", "3.5.0+ds-1", yes, words("2.53.3+ds1-4 may not be able to read what 3.5.0+ds-1 writes", "the way back is to 2.55")},
		{"3.5.0+ds-1", "2.53.3+ds1-4", no, words("Prometheus 2.53.3+ds1-4 can't read", "Take 2.55", "volume of its own")},
		{"3.5.0", "2.54.1", no, words("Prometheus 2.54.1 can't read")},
	})
}

func TestOtherTypesTakeEveryStep(t *testing.T) {
	for _, appType := range []string{"haproxy", "nginx", "agent", "alloy", "static-site", "web-app", "generic-stateless", "no-such-type"} {
		checkSteps(t, appType, []step{
			{"2.6.12-1+deb12u2", "3.0.11-1+deb13u1", yes, nil},
			{"3.0.11-1+deb13u1", "2.6.12-1+deb12u2", yes, nil},
			{"2.6.12", "3.4-dev3", yes, nil},
		})
	}
}

func TestAStepThatCanNotBeComparedIsLeftToTheClass(t *testing.T) {
	for _, appType := range []string{"postgres", "etcd", "galera", "k8s-worker", "k8s-control-plane", "prometheus"} {
		checkSteps(t, appType, []step{
			{"latest", "17.0", yes, nil},
			{"16.4", "latest", yes, nil},
			{"", "", yes, nil},
			{"16.4", hex64, yes, nil},
		})
	}
}

func FuzzSteps(f *testing.F) {
	for _, s := range [][2]string{{"15.18-0+deb12u1", "17.6-0+deb13u1"}, {"3.4.23-4", "3.99999999999"}, {"1:10.11.14-0+deb12u2", "11.8.3"}, {"v1.31.4+k3s1", "1.31.4"}, {"3.5.0", "2.53.3+ds1-4"}, {"latest", "1"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, from, to string) {
		a, errA := Parse(from)
		b, errB := Parse(to)
		known := errA == nil && errB == nil
		if known && a.Compare(b) != -b.Compare(a) {
			t.Fatalf("Compare(%q, %q) is %d, and %d the other way round", from, to, a.Compare(b), b.Compare(a))
		}
		if v := Skew(from, to); !known && !v.Allowed {
			t.Fatalf("Skew(%q, %q) judges what it can't read: %+v", from, to, v)
		}
		for _, appType := range []string{"nginx", "postgres", "etcd", "galera", "k8s-control-plane", "k8s-worker", "prometheus"} {
			change, why := Classify(appType, from, to)
			v := CheckStep(appType, from, to)
			switch {
			case why == "":
				t.Fatalf("Classify(%s, %q, %q) = %s without a word", appType, from, to, change)
			case (change == Unknown) != !known:
				t.Fatalf("Classify(%s, %q, %q) = %s", appType, from, to, change)
			case known && (change == Downgrade) != (b.Compare(a) < 0):
				t.Fatalf("Classify(%s, %q, %q) = %s, compared %d", appType, from, to, change, b.Compare(a))
			case v.Allowed && v.Refusal() != "", !v.Allowed && (v.Reason == "" || v.WayOut == "" || v.Caution != ""):
				t.Fatalf("CheckStep(%s, %q, %q) = %+v", appType, from, to, v)
			case !v.Allowed && (change == Unknown || change == Same):
				t.Fatalf("CheckStep(%s, %q, %q) refuses a change that is %s", appType, from, to, change)
			case len(v.Refusal()+v.Caution) > 2000:
				t.Fatalf("CheckStep(%s, %q, %q) says %d characters", appType, from, to, len(v.Refusal()+v.Caution))
			}
		}
	})
}
