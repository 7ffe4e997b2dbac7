package provider_test

import (
	"context"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

func TestBadInputGetsAClearError(t *testing.T) {
	for name, one := range map[string]struct {
		config  values
		summary string
		parts   []string
	}{
		"unknown type":               {web(values{"type": "generic-statless"}), "Unknown App type", []string{`Did you mean "generic-stateless"?`, "haproxy, nginx, "}},
		"unknown parameter":          {values{"name": "a", "type": "nginx", "image": "a", "replicas": 1, "params": values{"prot": 8080}}, "Unknown parameter", []string{`Did you mean "port"?`}},
		"parameter of another kind":  {values{"name": "a", "type": "nginx", "image": "a", "replicas": 1, "params": values{"port": "x"}}, "Wrong type of parameter", []string{"params.port", "1 to 65535"}},
		"missing parameter":          {values{"name": "a", "type": "alloy", "image": "a", "replicas": 1}, "Missing parameter", []string{`"config" is required`}},
		"params that are no object":  {web(values{"params": "port=80"}), "Wrong type of parameters", nil},
		"replicas 0":                 {web(values{"replicas": 0}), "Invalid replicas", []string{"Replicas is 0", "destroy the resource"}},
		"replicas below 0":           {web(values{"replicas": -2}), "Invalid replicas", []string{"Replicas is -2"}},
		"replicas as text":           {web(values{"replicas": "many"}), "Invalid replicas", []string{`"many"`, `"per-node"`}},
		"replicas with a fraction":   {web(values{"replicas": "1.5"}), "Invalid replicas", []string{`"1.5"`}},
		"too many replicas":          {web(values{"replicas": 100000}), "Invalid replicas", []string{"1000"}},
		"per-node without nodes":     {web(values{"replicas": "per-node"}), "Missing nodes", []string{"data.homelabops_nodes"}},
		"per-node with no node":      {web(values{"replicas": "per-node", "nodes": []any{}}), "Missing nodes", []string{"nodes is empty"}},
		"nodes without per-node":     {web(values{"nodes": []any{"a"}}), "Unexpected nodes", []string{`"per-node"`}},
		"name with capitals":         {web(values{"name": "Web"}), "Invalid name", []string{"not a valid host name"}},
		"name with a dot":            {web(values{"name": "a.b"}), "Invalid name", []string{"not a valid host name"}},
		"name that is empty":         {web(values{"name": ""}), "Invalid name", []string{"not a valid host name"}},
		"name that is too long":      {web(values{"name": strings.Repeat("a", 60)}), "Invalid name", []string{"60 characters", "at most 51"}},
		"nodes of one label":         {web(values{"replicas": "per-node", "nodes": []any{"rack.1", "rack-1"}}), "Invalid node", []string{`"rack-1" and "rack.1"`, "an instance's name"}},
		"node without a label":       {web(values{"replicas": "per-node", "nodes": []any{"..."}}), "Invalid node", []string{`"..."`, "neither a letter nor a digit"}},
		"name too long for a node":   {web(values{"name": strings.Repeat("a", 40), "replicas": "per-node", "nodes": []any{"node-with-a-long-name"}}), "Invalid name", []string{"node-with-a-long-name"}},
		"image with a space":         {web(values{"image": "web 1"}), "Invalid image", []string{"space"}},
		"image that is empty":        {web(values{"image": ""}), "Invalid image", []string{"empty"}},
		"image without remote":       {web(values{"image": ":web"}), "Invalid image", []string{"no remote before the colon"}},
		"image of unknown remote":    {web(values{"image": "lab:web"}), "Unknown image remote", []string{"docker, ghcr, images", "image_remotes"}},
		"missing health":             {web(values{"health": nil}), "Missing health probe", []string{"http, tcp or exec"}},
		"two probes":                 {web(values{"health": values{"tcp": values{"port": 80}, "exec": values{"command": []any{"x"}}}}), "Invalid health probe", []string{"not 2"}},
		"probe path without slash":   {web(values{"health": values{"http": values{"port": 80, "path": "ready"}}}), "Invalid health probe", []string{"begin with a slash"}},
		"status that is none":        {web(values{"health": values{"http": values{"port": 80, "status": []any{700}}}}), "Invalid health probe", []string{"700"}},
		"empty command":              {web(values{"health": values{"exec": values{"command": []any{}}}}), "Invalid health probe", []string{"command is empty"}},
		"interval without unit":      {web(values{"health": values{"exec": values{"command": []any{"x"}}, "interval": "2"}}), "Invalid duration", []string{`"2"`, `"10s"`}},
		"interval of no time":        {web(values{"health": values{"exec": values{"command": []any{"x"}}, "interval": "0s"}}), "Invalid duration", []string{"above zero"}},
		"negative duration":          {web(values{"rollout": values{"settle_time": "-1s"}}), "Invalid duration", []string{"negative"}},
		"deadline before the gate":   {web(values{"rollout": values{"min_healthy_time": "10m"}}), "Deadline too short", []string{"10m0s", "5m0s"}},
		"max_parallel 0":             {web(values{"rollout": values{"max_parallel": 0}}), "Invalid Attribute Value", []string{"rollout.max_parallel"}},
		"listen address with port":   {web(values{"endpoint": values{"listen_address": "10.0.0.1:80", "ports": []any{values{"listen": 80}}}}), "Invalid listen address", []string{"10.0.0.1:80", "without port"}},
		"listen address of loopback": {web(values{"endpoint": values{"listen_address": "127.0.0.1", "ports": []any{values{"listen": 80}}}}), "Invalid listen address", []string{"127.0.0.1"}},
		"secrets without a version":  {web(values{"secrets_wo": values{"a": "b"}}), "Invalid Attribute Combination", []string{"secrets_wo_version"}},
		"secret of no member":        {web(values{"secrets_wo": values{"7/a": "b"}, "secrets_wo_version": 1}), "Unknown member", []string{`secrets_wo["7"]`}},
		"secret that is empty":       {web(values{"secrets_wo": values{"a": ""}, "secrets_wo_version": 1}), "Empty secret", []string{"The secret a is empty"}},
		"secret with a path":         {web(values{"secrets_wo": values{"../a": "b"}, "secrets_wo_version": 1}), "Unknown member", nil},
		"secret of a bad name":       {web(values{"secrets_wo": values{"0/../a": "b"}, "secrets_wo_version": 1}), "Invalid name of a secret", nil},
		"own address":                {web(values{"endpoint": values{"listen_address": "10.99.0.1", "ports": []any{values{"listen": 80}}}}), "refused", []string{"own address"}},
		"broadcast address":          {web(values{"endpoint": values{"listen_address": "10.99.0.255", "ports": []any{values{"listen": 80}}}}), "refused", []string{"broadcast"}},
		"vrrp: network's address":    {floating("203.0.113.0", 24), "Invalid listen address", []string{"203.0.113.0/24 itself"}},
		"vrrp: broadcast address":    {floating("203.0.113.255", 24), "Invalid listen address", []string{"broadcast address of the network 203.0.113.0/24"}},
		"vrrp: prefix too long":      {floating("::ffff:203.0.113.7", 33), "Invalid prefix length", []string{"the 32 bits of 203.0.113.7"}},
		"port given twice":           {web(values{"endpoint": values{"listen_address": "10.0.0.1", "ports": []any{values{"listen": 80}, values{"listen": 80, "protocol": "tcp"}}}}), "Port given twice", []string{"ports[0] and ports[1]"}},
		"port out of range":          {web(values{"endpoint": values{"listen_address": "10.0.0.1", "ports": []any{values{"listen": 70000}}}}), "Invalid Attribute Value", []string{"70000"}},
		"no ports":                   {web(values{"endpoint": values{"listen_address": "10.0.0.1", "ports": []any{}}}), "Invalid Attribute Value", []string{"at least 1"}},
		"unknown protocol":           {web(values{"endpoint": values{"listen_address": "10.0.0.1", "ports": []any{values{"listen": 80, "protocol": "sctp"}}}}), "Invalid Attribute Value Match", []string{"sctp"}},
		"limit with prefix":          {web(values{"limits": values{"limits.cpu": "1"}}), "Unknown limit", []string{`Write "cpu"`}},
		"unknown limit":              {web(values{"limits": values{"mem": "1GiB"}}), "Unknown limit", []string{`"mem"`, "memory"}},
		"limit that is null":         {web(values{"limits": values{"cpu": nil}}), "Null value", []string{"cpu"}},
		"reserved variable":          {web(values{"environment": values{"HOMELABOPS_APP": "x"}}), "Reserved environment variable", []string{"HOMELABOPS_APP"}},
		"variable with a space":      {web(values{"environment": values{"A B": "x"}}), "Invalid environment variable", []string{"A B"}},
		"variable that is null":      {web(values{"environment": values{"A": nil}}), "Null value", []string{"A of environment"}},
		"our own configuration key":  {web(values{"config": values{"user.homelab-ops.app": "x"}}), "Reserved configuration key", nil},
		"limit as configuration":     {web(values{"config": values{"limits.cpu": "1"}}), "Reserved configuration key", []string{"limits = {"}},
		"relative file":              {web(values{"files": values{"etc/a": values{"content": "x"}}}), "Invalid file path", []string{"etc/a"}},
		"file mode":                  {web(values{"files": values{"/etc/a": values{"content": "x", "mode": "rw"}}}), "Invalid file mode", []string{`"0644"`}},
		"file mode of nothing":       {web(values{"files": values{"/etc/a": values{"content": "x", "mode": "000"}}}), "Invalid file mode", []string{`"000"`}},
		"file owner":                 {web(values{"files": values{"/etc/a": values{"content": "x", "uid": -1}}}), "Invalid Attribute Value", []string{"uid"}},
		"on_failure":                 {web(values{"on_failure": "explode"}), "Invalid Attribute Value Match", []string{"explode"}},
		"profile twice":              {web(values{"profiles": []any{"default", "default"}}), "Invalid profile", []string{"default"}},
		"timeout":                    {web(values{"timeouts": values{"create": "soon"}}), "Invalid Attribute Value Time Duration", []string{"soon"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.app()
			says(t, r.plan(one.config).diagnostics, one.summary, one.parts...)
		})
	}
}

func TestSeveralMistakesAreReportedAtOnce(t *testing.T) {
	w := newWorld(t)
	diagnostics := w.app().validate(web(values{"image": "a b", "replicas": 0, "environment": values{"1": "x"}, "name": "A"}))
	for _, summary := range []string{"Invalid image", "Invalid replicas", "Invalid environment variable", "Invalid name"} {
		says(t, diagnostics, summary)
	}
}

func TestWhatTheServerLacksIsAWarningAtPlanAndRefusedAtApply(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	c := r.plan(web(values{"network": "lan", "storage_pool": "fast", "endpoint": nil}))
	w.mustNot("plan", c.diagnostics)
	if got := texts(c.diagnostics); !strings.Contains(got, `Network "lan" does not exist. Storage pool "fast" does not exist.`) {
		t.Errorf("the plan says %q", got)
	}
	says(t, r.carryOut(c), "refused", `network "lan" does not exist`, "Nothing was changed")
	if !r.state.IsNull() {
		t.Error("what was refused is in state")
	}
}

func TestImageThatDoesNotExistFailsBeforeAnythingIsMade(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	says(t, r.apply(web(values{"image": "web/9.9.9"})), "image not available", "web/9.9.9", "Nothing was changed")
	if !r.state.IsNull() || len(w.incus.Names()) > 0 {
		t.Errorf("state is %s, the server has %v", r.state, w.incus.Names())
	}
}

func TestProjectThatDoesNotExist(t *testing.T) {
	w := newWorldUnconfigured(t)
	w.configure(values{"project": "attic"})
	says(t, w.app().plan(web()).diagnostics, "Project does not exist", `no project "attic"`, "Create it")
}

func TestAppOfAnotherProjectIsNotTakenForGone(t *testing.T) {
	w := newWorld(t)
	r := w.app()
	r.mustApply(web())
	w.configure(values{"project": "attic"})
	says(t, r.refresh(), "App is in another project", `"default"`, `"attic"`)
	if r.state.IsNull() {
		t.Error("the App is gone from state")
	}
}

// floating is a proxy whose members hold an address.
func floating(address string, length int) values {
	return values{
		"name": "proxy", "type": "haproxy", "image": "web/1.0.0", "replicas": 2, "upstreams": values{"web": values{"app": "web"}},
		"params":   values{"frontends": []any{values{"name": "web", "port": 80, "upstream": "web"}}},
		"endpoint": values{"listen_address": address, "ports": []any{values{"listen": 80}}, "vrrp": values{"router_id": 1, "prefix_length": length}},
	}
}

func TestAFloatingAddressIsWrittenAsTheKernelDoes(t *testing.T) {
	for written, want := range map[string]struct {
		address string
		length  int
	}{"2001:DB8:0::07": {"2001:db8::7/64", 64}, "::ffff:203.0.113.7": {"203.0.113.7/24", 24}} {
		w := newWorld(t)
		w.incus.OnExec = func(_ context.Context, c incustest.Command) (incus.ExecResult, error) {
			if c.Command[0] == "cat" {
				return incus.ExecResult{Stdout: []byte("MASTER\n")}, nil // what keepalived notes of itself
			}
			return incus.ExecResult{}, nil
		}
		w.app().mustApply(web())
		config := floating(written, want.length)
		config["health"] = values{"exec": values{"command": []any{"healthy"}}}
		r := w.app()
		r.mustApply(config)
		if text, _, _ := w.incus.File("proxy-0-g0", "/etc/keepalived/keepalived.conf"); !strings.Contains(string(text), " "+want.address+" dev eth0\n") {
			t.Errorf("of %s keepalived reads\n%s", written, text)
		}
		r.mustBeSettled(config)
	}
}
