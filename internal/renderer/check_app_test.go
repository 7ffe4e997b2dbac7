package renderer

import (
	"strings"
	"testing"
)

func TestCheckAppAcceptsWhatIsRight(t *testing.T) {
	a := App{
		Environment: map[string]string{"LOG_LEVEL": "info", "_x1": "a=b; c"},
		Files:       []File{{Path: "/etc/app.conf", Mode: 0o400, UID: 33}, {Path: "/etc/app.d/x"}},
		Limits:      map[string]string{"limits.cpu": "2", "limits.memory": "1GiB"},
		Config:      map[string]string{"security.nesting": "true", "user.note": "mine", "boot.autostart": "true"},
		Profiles:    []string{"default", "lan"},
		Health:      &Health{HTTP: &HTTPProbe{Port: 8080, Path: "/ready?full=1", Host: "web.example", Status: []int{200, 204}}},
	}
	if problems := CheckApp(a); len(problems) > 0 {
		t.Error(problems)
	}
}

func TestCheckAppSaysWhatIsWrong(t *testing.T) {
	env := func(name, value string) App { return App{Environment: map[string]string{name: value}} }
	config := func(key string) App { return App{Config: map[string]string{key: "x"}} }
	file := func(path string) App { return App{Files: []File{{Path: path}}} }
	health := func(h Health) App { return App{Health: &h} }
	cases := map[string]struct {
		app   App
		path  string
		words string
	}{
		"variable with a dash":  {env("A-B", ""), "environment.A-B", "not a variable's name"},
		"variable with a digit": {env("1A", ""), "environment.1A", "not a variable's name"},
		"variable of ours":      {env("HOMELABOPS_APP", "x"), "environment.HOMELABOPS_APP", "set for it"},
		"variable with a line":  {env("A", "x\ny"), "environment.A", "line break"},
		"tag of ours":           {config("user.homelab-ops.app"), `config["user.homelab-ops.app"]`, "only it writes them"},
		"environment in config": {config("environment.A"), `config["environment.A"]`, "environment = { A = … }"},
		"limit in config":       {config("limits.cpu"), `config["limits.cpu"]`, "limits = { … }"},
		"volatile key":          {config("volatile.eth0.hwaddr"), `config["volatile.eth0.hwaddr"]`, "Incus sets it itself"},
		"key with a space":      {config("a b"), `config["a b"]`, "not the name"},
		"limit of another name": {App{Limits: map[string]string{"cpu": "1"}}, `limits["cpu"]`, "limits.*"},
		"relative file":         {file("etc/x"), `files["etc/x"]`, "not absolute"},
		"file above":            {file("/etc/../x"), `files["/etc/../x"]`, "without"},
		"folder":                {file("/etc/"), `files["/etc/"]`, "without"},
		"root":                  {file("/"), `files["/"]`, "not that of a file"},
		"NUL in a path":         {file("/etc/\x00"), `files["/etc/\x00"]`, "control character"},
		"file in /proc":         {file("/proc/x"), `files["/proc/x"]`, "which the kernel fills"},
		"file twice":            {App{Files: []File{{Path: "/a"}, {Path: "/a"}}}, `files["/a"]`, "more than once"},
		"file below a file":     {App{Files: []File{{Path: "/a"}, {Path: "/a/b"}}}, `files["/a/b"]`, "which is a file too"},
		"mode":                  {App{Files: []File{{Path: "/a", Mode: 0o10000}}}, `files["/a"]`, "mode"},
		"owner":                 {App{Files: []File{{Path: "/a", UID: -1}}}, `files["/a"]`, "0 or more"},
		"profile twice":         {App{Profiles: []string{"a", "a"}}, "profiles", "there twice"},
		"no probe":              {health(Health{}), "health", "Exactly one"},
		"two probes":            {health(Health{TCP: &TCPProbe{80}, Exec: &ExecProbe{[]string{"true"}}}), "health", "not 2"},
		"HTTP port":             {health(Health{HTTP: &HTTPProbe{}}), "health.http.port", "0 is not a port"},
		"HTTP path":             {health(Health{HTTP: &HTTPProbe{Port: 80, Path: "ready"}}), "health.http.path", "begin with a slash"},
		"HTTP path with a line": {health(Health{HTTP: &HTTPProbe{Port: 80, Path: "/\r\nX: y"}}), "health.http.path", "control characters"},
		"HTTP host":             {health(Health{HTTP: &HTTPProbe{Port: 80, Host: "a b"}}), "health.http.host", "not the name of a host"},
		"HTTP status":           {health(Health{HTTP: &HTTPProbe{Port: 80, Status: []int{20}}}), "health.http.status", "20 is not an HTTP status"},
		"TCP port":              {health(Health{TCP: &TCPProbe{70000}}), "health.tcp.port", "70000 is not a port"},
		"empty command":         {health(Health{Exec: &ExecProbe{}}), "health.exec.command", "is empty"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			problems := CheckApp(c.app)
			if len(problems) != 1 || problems[0].Path != c.path || !strings.Contains(problems[0].Detail, c.words) {
				t.Errorf("problems: %v; want one at %s with %q", problems, c.path, c.words)
			}
		})
	}
}
