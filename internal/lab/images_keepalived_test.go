//go:build lab

package lab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab/load"
)

// TestLabKeepalivedMovesOneAddressBetweenReleases runs on the cluster's network, since NAT on a bridge rewrites where the
// advertisements are from, and then all have the address. A reload with another priority moves it, and so does a stop of
// who has it. A move breaks what is established, so each worker of the load may lose the request that it has in flight.
func TestLabKeepalivedMovesOneAddressBetweenReleases(t *testing.T) {
	c := AttachCluster(t)
	project := c.Project(t)
	address := c.StaticAddress(400).String()
	holds := func(name string) bool {
		t.Helper()
		return strings.Contains(c.Exec(t, project, name, "ip", "-o", "addr", "show", "dev", "eth0"), " "+address+"/")
	}
	prefer := func(name string, priority int) {
		t.Helper()
		clusterPush(t, c, project, name+"/etc/keepalived/priority.conf", fmt.Sprintf("$PRIORITY=%d\n", priority))
	}
	c.Launch(t, project, "older", "haproxy/bookworm", "m1")
	c.Launch(t, project, "newer", "haproxy/trixie", "m2")
	prefer("older", 150)
	prefer("newer", 100)
	for _, name := range []string{"older", "newer"} {
		clusterPush(t, c, project, name+"/etc/haproxy/haproxy.cfg", haproxyAnswering(name))
		c.Exec(t, project, name, "sh", "-c", "kill -USR2 $(cat /run/haproxy.pid)") // it runs already, with the package's configuration
		clusterPush(t, c, project, name+"/etc/keepalived/keepalived.conf", keepalivedConfiguration(address))
	}
	await(t, 30*time.Second, "the preferred one has the address", func() bool { return holds("older") })
	await(t, 30*time.Second, "it answers there", func() bool { return healthy("http://" + address + "/") })
	if holds("newer") {
		t.Fatalf("both have the address:\n%s", c.Exec(t, project, "newer", "tail", "-n", "20", "/var/log/keepalived.log"))
	}

	const workers, moves = 2, 2
	requests := load.Start(t.Context(), "http://"+address+"/", workers)
	prefer("newer", 200)
	c.Exec(t, project, "newer", "sh", "-c", "kill -HUP $(cat /run/keepalived.pid)")
	await(t, 30*time.Second, "the other has it after a reload", func() bool { return holds("newer") && !holds("older") })
	clusterRun(t, c, "stop", "newer", "--project", project, "--timeout", "30")
	await(t, 30*time.Second, "the first has it again after a stop", func() bool { return holds("older") })
	result := requests.Stop()
	t.Log(result)
	if result.Failed > workers*moves || result.Bodies["older"] == 0 || result.Bodies["newer"] == 0 {
		t.Errorf("%s; answers %v", result, result.Bodies)
	}

	// What the stopped one left behind in /run must not keep it from starting again.
	clusterRun(t, c, "start", "newer", "--project", project)
	await(t, 30*time.Second, "the preferred one has it after a start", func() bool { return holds("newer") && !holds("older") })
}

// clusterPush writes a file into a running instance of the cluster.
func clusterPush(t *testing.T, c *Cluster, project, target, content string) {
	t.Helper()
	if _, err := c.mustMember("m1").Server.runWithInput(t.Context(), content, "file", "push", "--project", project, "--create-dirs", "--mode", "0644", "-", target); err != nil {
		t.Fatal(err)
	}
}

func keepalivedConfiguration(address string) string {
	return `include /etc/keepalived/priority.conf
vrrp_instance test {
	state BACKUP
	interface eth0
	virtual_router_id 77
	version 3
	advert_int 0.2
	priority $PRIORITY
	virtual_ipaddress {
		` + address + `/32 dev eth0
	}
}
`
}
