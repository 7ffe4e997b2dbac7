package provider_test

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// hostile are texts that would be more than a value where they are put into a configuration, a script, a path or a URL.
var hostile = []string{
	"a\nb: c", "a\r\nb", "a\"; touch /x; \"", "a' b '", "$(touch /x)", "`touch /x`", "a; b", "a} b {", "a # b", "../../x", "/../x", "a\x1bb", "a\tb", "a\u2028b", "a\u0085b",
	"${HOME}", "$uri", "a\\", "a & b | c", "a?b=c&project=d", "a or status eq running", "-rf", "{{a}}", "%s%n",
}

// verbatim are the parameters that are a user's whole configuration or content.
var verbatim = []string{"alloy.config", "haproxy.config", "nginx.config", "nginx.sites", "prometheus.config", "static-site.content"}

// subject is a good App of a type.
func subject(r renderer.Renderer) renderer.App {
	volume := renderer.Volume{Name: "data", Path: "/var/lib/app", Size: "1GiB"}
	members := []renderer.UpstreamMember{{Member: "0", Instance: "db-g0", Address: "192.0.2.1"}}
	a := renderer.App{Name: "web", Type: r.Type().Name, Image: "web/1.0.0", Version: "1.0.0", Replicas: 1, Health: &renderer.Health{TCP: &renderer.TCPProbe{Port: 80}}, Params: renderer.Params{}}
	switch a.Type {
	case "haproxy":
		a.Params["frontends"] = []any{map[string]any{"name": "db", "port": 80, "upstream": "db", "check": map[string]any{"type": "http"}}}
		a.Upstreams = map[string]renderer.Upstream{"db": {App: "db", Type: "generic-stateless", Members: members}}
	case "postgres":
		a.Upstreams = map[string]renderer.Upstream{"dcs": {App: "dcs", Type: "etcd", Members: members}}
		a.Secrets = map[string]string{"superuser": "a", "replication": "b", "restapi": "c"}
		volume.Path = "/var/lib/postgresql/data"
		a.Volumes = []renderer.Volume{volume}
	case "prometheus", "web-app":
		a.Volumes = []renderer.Volume{volume}
	case "alloy":
		a.Params["config"] = "logging {}"
	case "static-site":
		a.Params["content"] = map[string]any{"index.html": "hello"}
	}
	return a
}

// place is where a text goes into parameters.
type place struct {
	name string
	put  func(given map[string]any, text string)
}

// places are all of a specification that take a text.
func places(of string, spec []renderer.Param) []place {
	var all []place
	for _, p := range spec {
		name := of + "." + p.Name
		inner := func(in place) place {
			return place{in.name, func(given map[string]any, text string) {
				if p.Kind == renderer.List {
					items, _ := given[p.Name].([]any)
					if len(items) == 0 {
						items = []any{map[string]any{}}
					}
					fields := maps.Clone(items[0].(map[string]any))
					in.put(fields, text)
					given[p.Name] = []any{fields}
					return
				}
				fields, _ := given[p.Name].(map[string]any)
				fields = maps.Clone(fields)
				if fields == nil {
					fields = map[string]any{}
				}
				in.put(fields, text)
				given[p.Name] = fields
			}}
		}
		switch {
		case slices.Contains(verbatim, name):
		case p.Kind == renderer.String || p.Kind == renderer.Duration:
			all = append(all, place{name, func(given map[string]any, text string) { given[p.Name] = text }})
		case p.Kind == renderer.Texts:
			all = append(all, place{name + "'s key", func(given map[string]any, text string) { given[p.Name] = map[string]any{text: "1"} }},
				place{name + "'s value", func(given map[string]any, text string) { given[p.Name] = map[string]any{"work_mem": text} }})
		case p.Kind == renderer.List && p.Fields == nil:
			for _, before := range []string{"", "host all all all ", "--log.level="} {
				all = append(all, place{name, func(given map[string]any, text string) { given[p.Name] = []any{before + text} }})
			}
		case p.Kind == renderer.Object || p.Kind == renderer.List:
			for _, in := range places(name, p.Fields) {
				all = append(all, inner(in))
			}
		}
	}
	return all
}

// rendered are an App's files, by path.
func rendered(r renderer.Renderer, a renderer.App) (map[string]string, []renderer.Problem) {
	checked, problems := renderer.CheckParams(r.Type().Params, a.Params)
	if len(problems) > 0 {
		return nil, problems
	}
	a.Params = checked
	if problems := renderer.Check(r, a); len(problems) > 0 {
		return nil, problems
	}
	spec, err := r.Desired(a, app.Identity{App: a.Name, Member: "0"})
	if err != nil {
		return nil, []renderer.Problem{{Path: "params", Detail: err.Error()}}
	}
	files := map[string]string{}
	for _, f := range slices.Concat(spec.Files, spec.Hot.Files) {
		files[f.Path] = f.Content
	}
	return files, nil
}

// A text that a user gives for one value of an App type is one value in what is written, or is refused with the parameter's
// name.
func TestHostileParametersAreRefusedOrInert(t *testing.T) {
	types, err := provider.Types()
	if err != nil {
		t.Fatal(err)
	}
	refused, inert := 0, 0
	for _, kind := range types.Types() {
		r, err := types.Get(kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, problems := rendered(r, subject(r)); len(problems) > 0 {
			t.Fatalf("%s: the good App: %v", kind, problems)
		}
		for _, at := range places(kind, r.Type().Params) {
			for _, text := range hostile {
				a := subject(r)
				a.Params = maps.Clone(a.Params)
				at.put(a.Params, text)
				files, problems := rendered(r, a)
				if len(problems) > 0 {
					refused++
					parameter := strings.Split(strings.TrimSuffix(strings.TrimSuffix(at.name, "'s key"), "'s value"), ".")[1]
					if !slices.ContainsFunc(problems, func(p renderer.Problem) bool { return strings.Contains(p.Path+p.Detail, parameter) }) {
						t.Errorf("%s = %q is refused without its name: %v", at.name, text, problems)
					}
					continue
				}
				inert++
				for file, content := range files {
					if why := escapes(file, content, text); why != "" {
						t.Errorf("%s = %q: %s in %s:\n%s", at.name, text, why, file, content)
					}
				}
			}
		}
	}
	t.Logf("%d refused, %d inert", refused, inert)
}

// escapes tells why a text is more than one value in a file; empty where it is one, or isn't there.
func escapes(file, content, text string) string {
	if ext := path.Ext(file); ext != ".yml" && ext != ".yaml" {
		special := "\"'`$;{}#\\|"
		if strings.HasPrefix(file, "/etc/default/") {
			special = "\"'`$\\" // between double quotes
		}
		if strings.Contains(content, text) && strings.ContainsFunc(text, func(r rune) bool {
			return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(special, r)
		}) {
			return "it stands as it is"
		}
		return ""
	}
	var parsed any
	if err := yaml.Unmarshal([]byte(content), &parsed); err != nil {
		return "it breaks the file: " + err.Error()
	}
	if !strings.Contains(fmt.Sprint(parsed), text) {
		return ""
	}
	if !holds(reflect.ValueOf(parsed), text) {
		return "it is no whole value"
	}
	return ""
}

// holds tells whether a text is the end of a value, or a key, of what a YAML file holds.
func holds(v reflect.Value, text string) bool {
	switch v.Kind() {
	case reflect.Interface:
		return holds(v.Elem(), text)
	case reflect.String:
		return strings.HasSuffix(v.String(), text)
	case reflect.Slice:
		for n := range v.Len() {
			if holds(v.Index(n), text) {
				return true
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if holds(key, text) || holds(v.MapIndex(key), text) {
				return true
			}
		}
	}
	return false
}

// What an App or a machine names is refused by the plan with the argument's name, or reaches the server as that one name.
func TestHostileNamesAreRefusedByThePlan(t *testing.T) {
	probe := values{"tcp": values{"port": 80}}
	for name, put := range map[string]func(text string) values{
		"name":         func(text string) values { return values{"name": text} },
		"type":         func(text string) values { return values{"type": text} },
		"image":        func(text string) values { return values{"image": text} },
		"network":      func(text string) values { return values{"network": text} },
		"storage_pool": func(text string) values { return values{"storage_pool": text} },
		"profiles":     func(text string) values { return values{"profiles": []any{"default", text}} },
		"environment":  func(text string) values { return values{"environment": values{text: "x"}} },
		"config":       func(text string) values { return values{"config": values{text: "x"}} },
		"limits":       func(text string) values { return values{"limits": values{text: "1"}} },
		"files":        func(text string) values { return values{"files": values{text: values{"content": "x"}}} },
		"files below": func(text string) values {
			return values{"files": values{"/etc/" + text + "/..": values{"content": "x"}}}
		},
		"volumes": func(text string) values { return values{"volumes": values{text: values{"path": "/data"}}} },
		"path":    func(text string) values { return values{"volumes": values{"data": values{"path": text}}} },
		"devices": func(text string) values { return values{"devices": values{text: values{"type": text}}} },
		"upstreams": func(text string) values {
			return values{"type": "haproxy", "upstreams": values{text: values{"app": "default/db"}}}
		},
		"app": func(text string) values {
			return values{"type": "haproxy", "upstreams": values{"db": values{"app": text}}}
		},
		"secrets_wo": func(text string) values { return values{"secrets_wo": values{text: "x"}, "secrets_wo_version": 1} },
		"secrets_wo of a member": func(text string) values {
			return values{"secrets_wo": values{"0/" + text: "x"}, "secrets_wo_version": 1}
		},
		"listen_address": func(text string) values {
			return values{"endpoint": values{"listen_address": text, "ports": []any{values{"listen": 80}}}}
		},
		"per_member": func(text string) values {
			return values{"per_member": values{text: values{"environment": values{"A": "b"}}}}
		},
		"path of the probe": func(text string) values {
			return values{"health": values{"http": values{"port": 80, "path": "/\n" + text}}}
		},
		"host of the probe": func(text string) values {
			return values{"health": values{"http": values{"port": 80, "host": text + "\r\nX: y"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, text := range hostile {
				config := values{"name": "web", "type": "generic-stateless", "image": "web/1.0.0", "replicas": 1, "health": probe}
				maps.Copy(config, put(text))
				c := w.app().planOnce(config)
				argument, _, _ := strings.Cut(name, " ")
				if argument == "path" && name != "path" || argument == "host" {
					argument = "health"
				}
				inert := argument == "image" || argument == "config" // what the server has under that name, if anything
				said, failed := texts(c.diagnostics), hasError(c.diagnostics)
				named := strings.Contains(said, argument) || strings.Contains(strings.ToLower(said), strings.TrimSuffix(strings.ReplaceAll(argument, "_", " "), "s"))
				switch {
				case inert && !failed:
				case !failed && !strings.Contains(said, "Missing on the server"):
					t.Errorf("%q is planned: %s", text, said)
				case !named:
					t.Errorf("%q is refused without the argument's name: %s", text, said)
				}
			}
			for _, r := range w.incus.Requests() {
				if r.Mutating() || r.Query.Get("project") != "default" && r.Query.Get("project") != "" {
					t.Errorf("%s %s %v", r.Method, r.Path, r.Query)
				}
			}
		})
	}
}

func TestHostileIdsOfAnImportNameNothing(t *testing.T) {
	w := newWorld(t)
	w.app().mustApply(web())
	for _, text := range hostile {
		for _, id := range []string{text, "default/" + text, text + "/web"} {
			for _, r := range []*heldApp{w.app(), w.machine()} {
				w.incus.ResetRequests()
				if diagnostics := r.importBy(id, nil); !hasError(diagnostics) {
					t.Errorf("%s is imported by %q: %s", r.kind, id, r.state)
				}
				for _, request := range w.incus.Requests() {
					if request.Mutating() || request.Query.Has("status") {
						t.Errorf("import of %q: %s %s %v", id, request.Method, request.Path, request.Query)
					}
				}
			}
		}
	}
}
