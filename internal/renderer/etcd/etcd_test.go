package etcd

import (
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/renderertest"
)

func TestNoConfigurationIsThereBeforeTheInstanceHasAnAddress(t *testing.T) {
	for name, a := range map[string]renderer.App{"plain": etcdApp(t, nil), "secure": secureApp(t, nil)} {
		for _, f := range renderertest.Desired(t, Renderer{}, a).Files {
			if f.Path != "/etc/homelab-ops/tls/ca.crt" || name == "plain" {
				t.Errorf("%s: %s", name, f.Path)
			}
		}
	}
}

func TestAChangeOfAParameterTakesANewGeneration(t *testing.T) {
	hash := func(a renderer.App) string { return renderertest.Desired(t, Renderer{}, a).ColdHash("", "") }
	before := hash(etcdApp(t, nil))
	for _, params := range []map[string]any{
		{"client_port": 1}, {"peer_port": 1}, {"auto_compaction": "0s"}, {"quota_backend_bytes": 1 << 30}, {"snapshot_count": 5000}, {"heartbeat_interval": "50ms"}, {"election_timeout": "2s"},
	} {
		if hash(etcdApp(t, params)) == before {
			t.Errorf("%v: no new generation", params)
		}
	}
	if secure := secureApp(t, nil); hash(secure) == before {
		t.Error("TLS takes no new generation")
	}
	more := etcdApp(t, nil)
	more.Replicas = 5
	if hash(more) != before {
		t.Error("more members take a new generation of those that are there")
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	certificate, key := authority(t)
	for name, c := range map[string]struct {
		params map[string]any
		change func(*renderer.App)
		path   string
		words  string
	}{
		"two members":       {nil, func(a *renderer.App) { a.Replicas = 2 }, "replicas", "The quorum of 2 is 2, so that 0 may fail, as with 1, and there is one more that can. Use 1 or 3."},
		"four members":      {nil, func(a *renderer.App) { a.Replicas = 4 }, "replicas", "Use 3 or 5."},
		"one port for both": {map[string]any{"peer_port": 2379}, nil, "params", "must differ"},
		"election":          {map[string]any{"election_timeout": "400ms"}, nil, "params", "from 5 times heartbeat_interval (500ms) to 50s"},
		"long election":     {map[string]any{"election_timeout": "51s"}, nil, "params", "to 50s"},
		"heartbeat":         {map[string]any{"heartbeat_interval": "1500us"}, nil, "params.heartbeat_interval", "whole milliseconds"},
		"quota":             {map[string]any{"quota_backend_bytes": -1}, nil, "params.quota_backend_bytes", "more than 0"},
		"compaction":        {map[string]any{"auto_compaction": "1ns"}, nil, "params.auto_compaction", "at least one second"},
		"client TLS alone":  {map[string]any{"client_tls": true}, nil, "params", "needs tls"},
		"bad CA":            {map[string]any{"tls": map[string]any{"ca_certificate": certificate, "ca_key": "x"}}, nil, "params", "its key is not PEM"},
		"a file of ours":    {nil, func(a *renderer.App) { a.Files = []renderer.File{{Path: Path}} }, "params", "written by the App type itself"},
		"a key of ours": {map[string]any{"tls": map[string]any{"ca_certificate": certificate, "ca_key": key}}, func(a *renderer.App) { a.Files = []renderer.File{{Path: "/etc/homelab-ops/tls/tls.key"}} },
			"params", "because of tls"},
		"a shared volume": {nil, func(a *renderer.App) {
			a.Volumes = []renderer.Volume{{Name: "data", Path: "/var/lib", Shared: true, ShareSafe: "sure"}}
		}, "volumes", "leave shared out"},
	} {
		problems := renderertest.Problems(Renderer{}, c.params, c.change)
		if len(problems) != 1 || problems[0].Path != c.path || !strings.Contains(problems[0].Detail, c.words) {
			t.Errorf("%s: %v", name, problems)
		}
	}
	for _, members := range []int{1, 3, 5, 7} {
		if problems := renderertest.Problems(Renderer{}, nil, func(a *renderer.App) {
			a.Replicas = members
			a.Volumes = []renderer.Volume{{Name: "data", Path: DataPath}, {Name: "tools", Path: "/srv", Shared: true, ShareSafe: "read only"}}
		}); len(problems) > 0 {
			t.Errorf("%d members: %v", members, problems)
		}
	}
}

func TestTheConfigurationSaysWhatEtcdNeeds(t *testing.T) {
	a := etcdApp(t, map[string]any{"quota_backend_bytes": int64(8) << 30, "snapshot_count": 5000})
	text, err := configure(a, "dcs-1-g4", "10.0.0.7").join(map[string]string{"dcs-1-g4": "http://10.0.0.7:2380", "dcs-0-g2": "http://10.0.0.5:2380,http://10.9.0.5:2380"}).text()
	if err != nil {
		t.Fatal(err)
	}
	const want = `# Written by homelabops when this instance became part of its cluster. Changes are overwritten.
name: dcs-1-g4
data-dir: /var/lib/etcd/dcs-1-g4
listen-peer-urls: http://0.0.0.0:2380
listen-client-urls: http://0.0.0.0:2379
initial-advertise-peer-urls: http://10.0.0.7:2380
advertise-client-urls: http://10.0.0.7:2379
initial-cluster: dcs-0-g2=http://10.0.0.5:2380,dcs-0-g2=http://10.9.0.5:2380,dcs-1-g4=http://10.0.0.7:2380
initial-cluster-state: existing
enable-grpc-gateway: true
auto-compaction-mode: periodic
auto-compaction-retention: 1h0m0s
quota-backend-bytes: 8589934592
snapshot-count: 5000
heartbeat-interval: 100
election-timeout: 1000
`
	if text != want {
		t.Errorf("got:\n%s\nwant:\n%s", text, want)
	}
	c, err := parseConfiguration(text + "experimental-something: 7\n")
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.text()
	if err != nil || again != want+"experimental-something: 7\n" {
		t.Errorf("read and written again: %v\n%s", err, again)
	}
	for _, foreign := range []string{"name: x\n", "- a\n", "ETCD_NAME=x"} {
		if _, err := parseConfiguration(foreign); err == nil {
			t.Errorf("%q was read", foreign)
		}
	}
}

func TestAnIPv6AddressIsWrittenAsURLsHaveIt(t *testing.T) {
	c := configure(etcdApp(t, map[string]any{"auto_compaction": "0s"}), "dcs-g0", "fd42::7")
	if c.AdvertisePeers != "http://[fd42::7]:2380" || c.ListenClients != "http://[::]:2379" || c.CompactionMode != "" {
		t.Errorf("%+v", c)
	}
	if moved := c.at("10.0.0.7"); moved.AdvertiseClient != "http://10.0.0.7:2379" || moved.ListenPeers != "http://0.0.0.0:2380" {
		t.Errorf("%+v", moved)
	}
}

func TestClustersFormedOneAfterTheOtherHaveDifferentTokens(t *testing.T) {
	token := func(generation string) string {
		urls := map[string]string{"dcs-1-" + generation: "http://10.0.0.2:2380", "dcs-0-" + generation: "http://10.0.0.1:2380"}
		return configure(etcdApp(t, nil), "dcs-1-"+generation, "10.0.0.2").form(urls).Token
	}
	if token("g0") != "dcs-0-g0" || token("g0") == token("g1") {
		t.Error(token("g0"), token("g1"))
	}
}

func TestOnlyTheClientPortIsWaitedFor(t *testing.T) {
	if ports := (Renderer{}).Ports(etcdApp(t, map[string]any{"client_port": 12379})); len(ports) != 1 || ports[0] != 12379 {
		t.Error(ports)
	}
	if (Renderer{}).Type().Class != app.QuorumMember {
		t.Error("it is of another class")
	}
}
