package version

import "testing"

func TestClassifyFollowsTheTypesOwnRules(t *testing.T) {
	cases := []struct {
		appType, from, to string
		want              Change
	}{
		{"nginx", "1.27.3", "1.27.3", Same},
		{"nginx", "v1.27.3", "1.27.3", Same},
		{"nginx", "1.27", "1.27.0", Same},
		{"nginx", "1.27.3", "1.27.4", Patch},
		{"nginx", "1.27.3", "1.27.3-alpine", Patch},
		{"nginx", "1.27.3-rc1", "1.27.3", Patch},
		{"nginx", "1.27.3", "1.27.3-rc1", Downgrade},
		{"nginx", "1.26.2", "1.27.3", Minor},
		{"nginx", "1.27.3", "2.0.0", Major},
		{"nginx", "1.27.3", "1.27.2", Downgrade},
		{"nginx", "2.0", "1.30", Downgrade},
		{"haproxy", "2.6.12-1+deb12u1", "2.6.12-1+deb12u2", Patch},
		{"haproxy", "2.6.12-1+deb12u2", "2.6.12-1+deb12u1", Downgrade},
		{"haproxy", "2.6.12", "1:2.6.12", Major},
		{"generic-stateless", "24.04", "24.10", Minor},
		{"generic-stateless", "2025.1.1", "2025.1.2", Patch},
		{"nginx", "latest", "1.27.3", Unknown},
		{"nginx", "1.27.3", "latest", Unknown},
		{"nginx", "", "1.27.3", Unknown},
		{"nginx", "stable", "stable", Unknown},
		{"nginx", "1.27.3", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Unknown},
		{"no-such-type", "1.2.3", "1.3.0", Minor},

		{"postgres", "16.3", "16.4", Minor},
		{"postgres", "16.3", "17.0", Major},
		{"postgres", "15.18-1.pgdg120+1", "15.20-1.pgdg120+1", Minor},
		{"postgres", "9.6.3", "9.6.4", Minor},
		{"postgres", "9.5.25", "9.6.0", Major},
		{"postgres", "9.6.24", "10.0", Major},
		{"postgres", "16beta1", "16beta2", Major},
		{"postgres", "16rc1", "16.0", Major},
		{"postgres", "16.3-alpine", "16.3-bookworm", Patch},
		{"postgres", "16.4", "16.3", Downgrade},
		{"postgres", "15.18-0+deb12u1", "15.20-0+deb12u1", Minor},
		{"postgres", "15.18-0+deb12u1", "15.18-0+deb12u2", Patch},
		{"postgres", "15.18-0+deb12u1", "17.6-0+deb13u1", Major},
		{"postgres", "18~rc1-1", "18.0-1", Major},

		{"galera", "10.5.20", "10.11.6", Major},
		{"galera", "10.11.6", "10.11.8", Patch},
		{"galera", "10.11.6", "11.8.1", Major},
		{"galera", "1:10.11.6-0+deb12u1", "1:10.11.14-0+deb12u2", Patch},
		{"galera", "1:10.11.14-0+deb12u2", "1:11.8.3-0+deb13u1", Major},
		{"galera", "11.8.5-2", "11.8.6-3", Patch},

		{"etcd", "3.4.23", "3.5.16", Minor},
		{"etcd", "3.5.16", "3.5.30", Patch},
		{"etcd", "3.5.16", "3.4.23", Downgrade},
		{"etcd", "3.4.23-4", "3.4.23-4+b6", Patch},
		{"etcd", "3.3.25+dfsg-6", "3.4.23-4", Minor},
		{"etcd", "3.6.0-rc.3", "3.6.0", Patch},
		{"k8s-control-plane", "v1.30.2+k3s1", "v1.31.0+k3s1", Minor},
		{"k8s-worker", "v1.30.2+k3s1", "v1.30.2+k3s2", Patch},
		{"k8s-worker", "v1.31.4+k3s1", "v1.30.8+k3s1", Downgrade},

		{"prometheus", "2.42.0+ds-5+b5", "2.53.3+ds1-4", Minor},
		{"prometheus", "2.53.3+ds1-4", "3.5.0+ds-1", Major},
		{"prometheus", "v3.5.0", "v2.55.1", Downgrade},
	}
	for _, c := range cases {
		got, why := Classify(c.appType, c.from, c.to)
		if got != c.want || why == "" {
			t.Errorf("Classify(%s, %s, %s) = %s (%s), want %s", c.appType, c.from, c.to, got, why, c.want)
		}
	}
}

func TestClassifySaysWhatItWentBy(t *testing.T) {
	cases := map[[3]string]string{
		{"postgres", "16.3", "17.0"}:      "the major version changes: 16 → 17",
		{"galera", "10.5.20", "10.11.6"}:  "the release series changes: 10.5 → 10.11",
		{"nginx", "1.27.3", "1.27.2"}:     "1.27.2 is older than 1.27.3: a patch release within 1.27: 1.27.3 → 1.27.2",
		{"nginx", "1.27.3", "1.27.3-mod"}: "the same software in another build: 1.27.3 → 1.27.3-mod",
		{"nginx", "1.27.3", "latest"}:     `the new version is not known: "latest" is not a version that can be compared: it doesn't begin with a number`,
	}
	for c, want := range cases {
		if _, why := Classify(c[0], c[1], c[2]); why != want {
			t.Errorf("Classify(%v): %q, want %q", c, why, want)
		}
	}
}
