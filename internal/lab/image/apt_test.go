package image

import (
	"strings"
	"testing"
)

func TestUpstreamVersion(t *testing.T) {
	for debian, want := range map[string]string{
		"1.22.1-9+deb12u3":        "1.22.1",
		"2.6.12-1+deb12u2":        "2.6.12",
		"1%3a1.35.0-4+b3":         "1.35.0",
		"3.4.23+dfsg-4":           "3.4.23",
		"15.18-0+deb12u1":         "15.18",
		"2.53.3+ds1-2":            "2.53.3",
		"6.0.4-2+deb13u7~bpo12+1": "6.0.4",
		"2.10.0~rc1-1":            "2.10.0",
		"20240203":                "20240203",
	} {
		if got := upstreamVersion(debian); got != want {
			t.Errorf("upstreamVersion(%q) = %q, want %q", debian, got, want)
		}
	}
}

func TestChooseMirrorGoesByThePath(t *testing.T) {
	for name, test := range map[string]struct{ targets, path, want string }{
		"Debian after others": {
			"http://apt.example.net/tools stable\nhttp://mirror.example.net/debian-security/ main\nhttp://mirror.example.net/debian/ main\n",
			"/debian", "http://mirror.example.net/debian/",
		},
		"security updates": {
			"http://mirror.example.net/debian/ main\nhttp://mirror.example.net/debian-security/ main\n",
			"/debian-security", "http://mirror.example.net/debian-security/",
		},
		"a list of mirrors":   {"mirror+file:/etc/apt/mirrors/debian main\n", "/debian", "mirror+file:/etc/apt/mirrors/debian"},
		"none":                {"http://apt.example.net/ubuntu/ main\n", "/debian", ""},
		"no security updates": {"http://mirror.example.net/debian/ main\n", "/debian-security", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chooseMirror(test.targets, test.path)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestSecurityUpdatesComeWithTheirRelease(t *testing.T) {
	const targets = "http://mirror.example.net/debian-security/ main\nhttp://mirror.example.net/debian/ main\n"
	plain, err := aptSources(targets, "bookworm")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(plain, "URIs:") != 1 || !strings.Contains(plain, "URIs: http://mirror.example.net/debian/\nSuites: bookworm\n") {
		t.Errorf("a release comes from\n%s", plain)
	}
	updated, err := aptSources(targets, "bookworm-security")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(updated, plain+"\n") || !strings.Contains(updated, "URIs: http://mirror.example.net/debian-security/\nSuites: bookworm-security\n") {
		t.Errorf("its security updates come from\n%s", updated)
	}
}

func TestPatternsLeavePackagesOut(t *testing.T) {
	patterns := []string{"libllvm*", "*-perl", "procps"}
	for name, want := range map[string]bool{
		"libllvm14": true, "libjson-perl": true, "procps": true, "libprocps8": false, "perl-base": false, "postgresql-15": false,
	} {
		if got := matchesOne(patterns, name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestUnneededLeavesWhatRuns(t *testing.T) {
	for name, want := range map[string]bool{
		"perl": true, "adduser": true, "gcc-12-base": true, "libpam-runtime": true, "systemd": true,
		"nginx": false, "nginx-common": false, "haproxy": false, "libssl3": false, "libpcre2-8-0": false, "libsystemd0": false,
		"libcap2": false, "liblua5.3-0": false,
	} {
		if got := unneeded.MatchString(name); got != want {
			t.Errorf("unneeded(%s) = %t", name, got)
		}
	}
}
