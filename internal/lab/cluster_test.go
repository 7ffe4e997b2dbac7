//go:build lab

package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func pids(c *Cluster) []int {
	var pids []int
	for _, member := range c.Members() {
		pids = append(pids, member.Server.Pid())
	}
	return pids
}

func TestLabClusterComesUpAndGoesWithoutATrace(t *testing.T) {
	t.Parallel()
	c := PrivateCluster(t)
	steady := "steady-" + c.state.tag()
	c.Launch(t, "default", steady, "web/1.0.0", "m2")
	again, err := ClusterUp(t.Context(), c.Dir(), testLog{t})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(pids(c), pids(again)) || slices.Contains(pids(c), 0) {
		t.Errorf("a second up turned the daemons %v into %v", pids(c), pids(again))
	}

	// What a killed test leaves goes with the next up: faults, members, projects.
	if _, err := c.Join(t.Context(), "m4"); err != nil {
		t.Fatal(err)
	}
	if err := c.lab.makeProject(t.Context(), projectPrefix+"killed"); err != nil {
		t.Fatal(err)
	}
	c.Launch(t, projectPrefix+"killed", "orphan", "web/1.0.0", "m4")
	if err := c.Crash("m2"); err != nil {
		t.Fatal(err)
	}
	if again, err = ClusterUp(t.Context(), c.Dir(), testLog{t}); err != nil {
		t.Fatal(err)
	}
	if len(again.Members()) != len(FoundingMembers) || again.ailing() != nil {
		t.Errorf("after up there are %d members, ailing: %v", len(again.Members()), again.ailing())
	}
	if list := clusterRun(t, again, "project", "list", "--format", "csv"); strings.Contains(list, "killed") {
		t.Errorf("the project of a killed test is still there:\n%s", list)
	}
	if status, _ := get(t, "http://"+again.InstanceAddress(t, "default", steady)+":8080/"); status != http.StatusOK {
		t.Errorf("after the crash the instance answers %d", status)
	}

	if err := ClusterDown(t.Context(), c.Dir(), false); err != nil {
		t.Fatal(err)
	}
	assertNoTraceOfCluster(t, c)
}

func TestLabClusterComesUpOverTheRemainsOfAnEarlierOne(t *testing.T) {
	t.Parallel()
	c := PrivateCluster(t)

	// As if the machine had restarted: the files are there, and nothing else.
	for _, member := range c.Members() {
		if err := member.killEverything(); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{member.mountNamespace(), member.networkNamespace()} {
			if err := syscall.Unmount(path, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.state.removeNetwork(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Unmount(c.state.namespaces(), 0); err != nil {
		t.Fatal(err)
	}
	again, err := ClusterUp(t.Context(), c.Dir(), testLog{t})
	if err != nil {
		t.Fatal(err)
	}

	// As if an up had been killed: everything may be there, and nobody knows how far it came.
	earlier := pids(again)
	again.record.Complete = false
	if err := again.state.writeRecord(again.record); err != nil {
		t.Fatal(err)
	}
	if again, err = ClusterUp(t.Context(), c.Dir(), testLog{t}); err != nil {
		t.Fatal(err)
	}
	for i, pid := range pids(again) {
		if pid == 0 || pid == earlier[i] {
			t.Errorf("%s has the pid %d, before it had %d", FoundingMembers[i], pid, earlier[i])
		}
	}

	// One that is interrupted leaves nothing.
	if err := ClusterDown(t.Context(), c.Dir(), false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := ClusterUp(ctx, c.Dir(), testLog{t}); err == nil {
		t.Log("the cluster came up within a second, so that nothing was interrupted")
		return
	}
	assertNoTraceOfCluster(t, c)
}

func clusterRun(t *testing.T, c *Cluster, arguments ...string) string {
	t.Helper()
	output, err := c.Incus(t.Context(), arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// assertNoTraceOfCluster fails where anything of the cluster is left on the machine, but for the lock beside its
// directory, which an up that failed leaves.
func assertNoTraceOfCluster(t *testing.T, c *Cluster) {
	t.Helper()
	if _, err := os.Stat(c.Dir()); err == nil {
		t.Errorf("%s is still there", c.Dir())
	}
	if names, err := c.state.interfaces(); err != nil || len(names) > 0 {
		t.Errorf("interfaces are left: %v, %v", names, err)
	}
	for _, process := range processes() {
		if !process.dead && process.mentions(c.Dir()) {
			t.Errorf("process %d is left: %q", process.pid, process.arguments)
		}
	}
	if loops := loopDevices(c.Dir()); len(loops) > 0 {
		t.Errorf("loop devices are left: %v", loops)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), c.Dir()) {
		t.Error("mounts are left")
	}
	if groups, _ := filepath.Glob("/sys/fs/cgroup/*/lxc.*" + c.state.tag() + "*"); len(groups) > 0 {
		t.Errorf("cgroups are left: %v", groups)
	}
}

func TestLabClusterMembersTrustTheClientAndPresentOneCertificate(t *testing.T) {
	t.Parallel()
	c := AttachCluster(t)
	pair, err := tls.X509KeyPair([]byte(c.ClientCertificate()), []byte(c.ClientKey()))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(c.ServerCertificate())) {
		t.Fatal("the cluster's certificate is no PEM text")
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: "127.0.0.1"},
	}}
	for _, member := range c.Members() {
		response, err := client.Get(c.Address(member.Name) + "/1.0")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"auth":"trusted"`, `"server_clustered":true`, `"server_name":"` + member.Name + `"`} {
			if !strings.Contains(string(body), want) {
				t.Errorf("%s doesn't say %s: %s", member.Name, want, body)
			}
		}
	}
}

func TestLabClusterInstancesReachEachOtherAcrossMembers(t *testing.T) {
	t.Parallel()
	c := AttachCluster(t)
	project := c.Project(t)
	addresses := map[string]string{}
	for i, target := range []string{"m1", "m2", "m3", "@web", "@manager"} {
		name := fmt.Sprintf("w%d", i)
		addresses[name] = c.Launch(t, project, name, "web/1.0.0", target)
		location, err := c.Location(t.Context(), project, name)
		if err != nil {
			t.Fatal(err)
		}
		wanted := map[string][]string{"@web": {"m1", "m2"}, "@manager": {"m1"}}[target]
		if wanted == nil {
			wanted = []string{target}
		}
		if !slices.Contains(wanted, location) {
			t.Errorf("%s was meant for %s and is on %s", name, target, location)
		}
	}
	for name, address := range addresses {
		if status, body := get(t, "http://"+address+":8080/"); status != http.StatusOK || body != "1.0.0" {
			t.Errorf("this machine gets %d %q from %s", status, body, name)
		}
		for other, target := range addresses {
			answer := c.Exec(t, project, name, "sh", "-c", `printf "GET / HTTP/1.0\r\n\r\n" | nc -w 5 `+target+" 8080")
			if !strings.Contains(answer, " 200 OK") || !strings.Contains(answer, "1.0.0") {
				t.Errorf("%s gets %q from %s", name, answer, other)
			}
		}
	}
}

func TestLabClusterMembersFetchAnImageWhenTheyNeedIt(t *testing.T) {
	t.Parallel()
	c := AttachCluster(t)
	project := c.Project(t)
	alias, fingerprint := c.ColdImage(t, "web/1.0.0", "m2")
	if got := c.ImageMembers(fingerprint); !slices.Equal(got, []string{"m2"}) {
		t.Fatalf("after the import the image is on %v", got)
	}
	c.LaunchImage(t, project, "near", alias, "m2")
	if got := c.ImageMembers(fingerprint); !slices.Equal(got, []string{"m2"}) {
		t.Errorf("after a launch where it was the image is on %v", got)
	}
	c.LaunchImage(t, project, "far", alias, "m3")
	if got := c.ImageMembers(fingerprint); !slices.Equal(got, []string{"m2", "m3"}) {
		t.Errorf("after a launch elsewhere the image is on %v", got)
	}
}
