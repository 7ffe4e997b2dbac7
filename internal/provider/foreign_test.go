package provider_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// neighbours are things of others on the server, by the path that the API has them at, with their project. Their names are
// those that Apps of ours would use.
type neighbours struct {
	w      *world
	before map[string]string // what they were, by where they are
}

// placed names an object: "<project> <path>".
func placed(project, path string) string { return project + " " + path }

const volumesPath = "/1.0/storage-pools/default/volumes/custom/"

// newNeighbours makes them: without tags, with the tags of other Apps, and with those of Apps of our names in another project.
func newNeighbours(w *world) *neighbours {
	w.t.Helper()
	client := w.incus.Client(w.t)
	w.must(client.CreateProject(w.t.Context(), incus.Project{Name: "other", Config: map[string]string{"features.images": "false", "features.profiles": "false", "features.storage.volumes": "true"}}))
	other := client.UseProject("other")
	n := &neighbours{w: w, before: map[string]string{}}
	tags := func(app, member string, generation string) map[string]string {
		return map[string]string{
			"user.homelab-ops.app": app, "user.homelab-ops.type": "generic-stateless", "user.homelab-ops.member": member, "user.homelab-ops.generation": generation,
			"user.homelab-ops.phase": "active", "user.homelab-ops.project": "other",
		}
	}
	for _, one := range []struct {
		client *incus.Client
		name   string
		config map[string]string
	}{
		{client, "web-0-g1", nil},                     // the next generation of a member
		{client, "web-1-g1", tags("web-1", "0", "1")}, // the App web-1's own, and the next generation of a member of web
		{client, "web-2-g0", nil},                     // a member that there is to be
		{client, "nas-g0", tags("another", "0", "0")}, // what a machine is called that stands aside
		{client, "nas-g1", nil},                       // its next generation
		{client, "web", nil},
		{other, "web-0-g0", tags("web", "0", "0")},
		{other, "web-1-g0", tags("web", "1", "0")},
		{other, "nas", tags("nas", "0", "0")},
	} {
		op, err := one.client.CreateInstance(w.t.Context(), incus.InstancesPost{
			Name: one.name, Source: incus.InstanceSource{Type: "image", Alias: "web/1.0.0"}, InstancePut: incus.InstancePut{Config: one.config},
		})
		w.must(err)
		w.must(op.Wait(w.t.Context()))
		n.keep(one.client, "/1.0/instances/"+one.name)
	}
	for _, one := range []struct {
		client *incus.Client
		name   string
		config map[string]string
	}{
		{client, "web-0-cache", map[string]string{"user.mine": "yes"}},
		{client, "web-1-data", tags("web-1", "0", "0")},
		{other, "nas-data", map[string]string{"user.homelab-ops.app": "nas", "user.homelab-ops.member": "0", "user.homelab-ops.volume": "data"}},
	} {
		w.must(one.client.CreateStoragePoolVolume(w.t.Context(), incustest.DefaultPool, incus.StorageVolume{Name: one.name, Config: one.config}))
		n.keep(one.client, volumesPath+one.name)
	}
	for address, config := range map[string]map[string]string{"10.99.1.2": nil, "10.99.1.3": tags("web", "0", "0"), "10.99.1.4": {"user.homelab-ops.app": "web-1", "user.homelab-ops.project": "default"}} {
		w.must(client.CreateNetworkForward(w.t.Context(), incustest.DefaultNetwork, incus.NetworkForward{
			ListenAddress: address, Config: config, Ports: []incus.NetworkForwardPort{{Protocol: "tcp", ListenPort: "8443", TargetAddress: "10.99.0.200"}},
		}))
		n.keep(client, "/1.0/networks/"+incustest.DefaultNetwork+"/forwards/"+address)
	}
	w.must(client.CreateProfile(w.t.Context(), incus.Profile{Name: "web", Config: map[string]string{"user.mine": "yes"}}))
	n.keep(client, "/1.0/profiles/web")
	n.keep(client, "/1.0/profiles/default")
	w.incus.ResetRequests()
	return n
}

// keep notes how a thing is, which must stay so.
func (n *neighbours) keep(client *incus.Client, path string) {
	n.w.t.Helper()
	project := client.Project()
	if project == "" {
		project = "default"
	}
	n.before[placed(project, path)] = n.look(client, path)
}

func (n *neighbours) look(client *incus.Client, path string) string {
	n.w.t.Helper()
	name := path[strings.LastIndex(path, "/")+1:]
	var thing any
	var err error
	switch {
	case strings.HasPrefix(path, "/1.0/instances/"):
		thing, _, err = client.GetInstance(n.w.t.Context(), name)
	case strings.HasPrefix(path, volumesPath):
		thing, _, err = client.GetStoragePoolVolume(n.w.t.Context(), incustest.DefaultPool, name)
	case strings.HasPrefix(path, "/1.0/networks/"):
		thing, _, err = client.GetNetworkForward(n.w.t.Context(), incustest.DefaultNetwork, name)
	default:
		thing, _, err = client.GetProfile(n.w.t.Context(), name)
	}
	n.w.must(err)
	text, err := json.Marshal(thing)
	n.w.must(err)
	return string(text)
}

// untouched fails where one of them is otherwise, or where a request that changes anything was about one of them, about
// another project's, or about what no App of ours can have.
func (n *neighbours) untouched(after string, ours ...string) {
	n.w.t.Helper()
	client := n.w.incus.Client(n.w.t)
	for _, where := range slices.Sorted(maps.Keys(n.before)) {
		project, path, _ := strings.Cut(where, " ")
		if now := n.look(client.UseProject(project), path); now != n.before[where] {
			n.w.t.Errorf("%s: %s is\n%s\nand was\n%s", after, where, now, n.before[where])
		}
	}
	for _, r := range n.w.incus.Requests() {
		if r.Mutating() {
			if why := n.wrong(r, ours); why != "" {
				n.w.t.Errorf("%s: %s %s %v: %s", after, r.Method, r.Path, r.Query, why)
			}
		}
	}
	n.w.incus.ResetRequests()
}

// wrong tells why a request should not have been made; empty for one that may be.
func (n *neighbours) wrong(r incustest.Request, ours []string) string {
	project := r.Query.Get("project")
	if project == "" {
		project = "default"
	}
	path := r.Path
	if r.Method == http.MethodPost && len(r.Body) > 0 {
		var made struct {
			Name          string `json:"name"`
			ListenAddress string `json:"listen_address"`
		}
		_ = json.Unmarshal(r.Body, &made)
		if renames := strings.Count(path, "/") == 3 && strings.HasPrefix(path, "/1.0/instances/"); renames {
			if _, foreign := n.before[placed(project, "/1.0/instances/"+made.Name)]; foreign {
				return "it takes the name of a neighbour"
			}
		} else if name := made.Name + made.ListenAddress; name != "" && !strings.HasSuffix(path, "/snapshots") {
			path += "/" + name
		}
	}
	for where := range n.before {
		if of, its, _ := strings.Cut(where, " "); project == of && (path == its || strings.HasPrefix(path, its+"/")) {
			return "it is about a neighbour"
		}
	}
	if path == "/1.0/projects/"+rollout.DefaultCoordination {
		return ""
	}
	kind, rest, _ := strings.Cut(strings.TrimPrefix(path, "/1.0/"), "/")
	switch kind {
	case "profiles":
		if project != rollout.DefaultCoordination || !slices.ContainsFunc(ours, func(app string) bool { return strings.HasPrefix(rest, "lease-"+app+"-") }) {
			return "it is about a profile that is no lease of ours"
		}
		return ""
	case "storage-pools":
		rest = strings.TrimPrefix(path, volumesPath)
	case "networks":
		if !strings.HasSuffix(path, "/forwards/10.99.1.1") {
			return "it is about an address that is not ours"
		}
		return ""
	case "instances":
	default:
		return "nothing of ours is of that kind"
	}
	if project != "default" {
		return "it is about another project"
	}
	name, _, _ := strings.Cut(rest, "/")
	if !slices.ContainsFunc(ours, func(app string) bool { return name == app || strings.HasPrefix(name, app+"-") }) {
		return "its name is none of ours"
	}
	return ""
}

// giveWay removes a neighbour that is in the way.
func (n *neighbours) giveWay(instance string) {
	n.w.t.Helper()
	n.w.incus.Remove(instance)
	delete(n.before, placed("default", "/1.0/instances/"+instance))
}

func TestNothingOfOthersIsTouchedWhateverItsName(t *testing.T) {
	w := newWorld(t)
	n := newNeighbours(w)
	r := w.app()
	r.mustApply(web())
	n.untouched("the creation", "web")

	next := web(values{"image": "web/1.1.0"})
	for _, taken := range []string{"web-0-g1", "web-1-g1"} {
		says(t, r.plan(next).diagnostics, "name in use", fmt.Sprintf("instance %q exists and does not carry the tags of App %q", taken, "web"))
		n.untouched("a refused upgrade", "web")
		n.giveWay(taken)
	}
	r.mustApply(next)
	n.untouched("the upgrade", "web")
	says(t, r.apply(web(values{"image": "web/2.0.0-bad"})), "reverted")
	n.untouched("a reverted upgrade", "web")

	more := web(values{"image": "web/1.1.0", "replicas": 3})
	says(t, r.plan(more).diagnostics, "name in use", `instance "web-2-g0" exists`)
	n.untouched("a refused scale-out", "web")
	n.giveWay("web-2-g0")
	r.mustApply(more)
	r.mustApply(web(values{"image": "web/1.1.0", "replicas": 1}))
	n.untouched("out and in again", "web")

	for _, listen := range []string{"10.99.1.2", "10.99.1.3", "10.99.1.4"} {
		endpoint := values{"image": "web/1.1.0", "replicas": 1, "endpoint": values{"listen_address": listen, "ports": []any{values{"listen": 80, "target": 8080}}}}
		says(t, r.plan(web(endpoint)).diagnostics, "refused", "the listen address "+listen+" on network", "choose another")
	}
	n.untouched("an address of others", "web")

	cache := keeper(allowed, values{"name": "web", "volumes": values{"cache": values{"path": "/data"}}})
	w.mustNot("destroy", r.destroy())
	n.untouched("the removal", "web")
	r = w.app()
	says(t, r.apply(cache), "name in use", "web-0-cache", "does not carry the tags")
	n.untouched("a volume of others", "web")
}

func TestNothingOfOthersIsTouchedByAMachine(t *testing.T) {
	w := newWorld(t)
	n := newNeighbours(w)
	says(t, w.machine().apply(values{"name": "web", "image": "web/1.0.0"}), "name in use", "web")
	n.untouched("a name of others", "web")
	r := w.machine()
	config := func(image string) values {
		return values{"name": "nas", "image": image, "volumes": values{"data": values{"path": "/data", "retain": false}}, "rollout": values{"allow_downtime": true}}
	}
	r.mustApply(config("web/1.0.0"))
	n.untouched("the creation", "nas")
	for _, taken := range []string{"nas-g0", "nas-g1"} { // what stands aside, and what is made
		says(t, r.plan(config("web/1.1.0")).diagnostics, "name in use", fmt.Sprintf("instance %q exists and does not carry the tags", taken))
		n.untouched("a refused update", "nas")
		n.giveWay(taken)
	}
	r.mustApply(config("web/1.1.0"))
	n.untouched("the update", "nas")
	w.mustNot("destroy", r.destroy())
	n.untouched("the removal", "nas")

	// One that is made by hand is claimed by its import, and nothing else is.
	n.giveWay("web")
	op, err := w.incus.Client(t).CreateInstance(t.Context(), incus.InstancesPost{Name: "hand", Source: incus.InstanceSource{Type: "image", Alias: "web/1.0.0"}})
	w.must(err)
	w.must(op.Wait(t.Context()))
	w.incus.ResetRequests()
	hand := w.machine()
	w.mustNot("import", hand.importBy("hand", nil))
	n.untouched("the import", "hand")
}
