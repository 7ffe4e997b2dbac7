package renderer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var everyKind = []Param{
	{Name: "name", Kind: String, Required: true, Description: "What it is called."},
	{Name: "port", Kind: Port, Default: 80},
	{Name: "count", Kind: Int},
	{Name: "sticky", Kind: Bool, Default: false},
	{Name: "timeout", Kind: Duration, Default: "5m"},
	{Name: "labels", Kind: Texts},
	{Name: "hosts", Kind: List},
	{Name: "frontends", Kind: List, Fields: []Param{
		{Name: "name", Kind: String, Required: true},
		{Name: "port", Kind: Port, Required: true},
		{Name: "mode", Kind: String, Default: "http", Check: func(v any) error {
			if v != "http" && v != "tcp" {
				return errors.New(`must be "http" or "tcp"`)
			}
			return nil
		}},
	}},
	{Name: "drain", Kind: Object, Fields: []Param{{Name: "grace", Kind: Duration}, {Name: "force", Kind: Bool, Default: false}}},
}

func TestCheckParamsFillsInDefaultsAndConverts(t *testing.T) {
	params, problems := CheckParams(everyKind, map[string]any{
		"name": "web", "port": "8080", "count": float64(3), "sticky": "true", "labels": map[string]any{"a": "b", "n": int64(1)},
		"hosts": []any{"x", "y"}, "frontends": []any{map[string]any{"name": "in", "port": int64(443)}},
		"drain": map[string]any{"grace": "30s", "force": nil},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := Params{
		"name": "web", "port": int64(8080), "count": int64(3), "sticky": true, "timeout": "5m",
		"labels": map[string]any{"a": "b", "n": "1"}, "hosts": []any{"x", "y"},
		"frontends": []any{map[string]any{"name": "in", "port": int64(443), "mode": "http"}},
		"drain":     map[string]any{"grace": "30s", "force": false},
	}
	if diff := cmp.Diff(want, params); diff != "" {
		t.Error(diff)
	}
	if params.Int("port") != 8080 || !params.Bool("sticky") || params.Duration("timeout") != 5*time.Minute ||
		params.Texts("labels")["n"] != "1" || len(params.Strings("hosts")) != 2 || params.Objects("frontends")[0].Int("port") != 443 ||
		params.Object("drain").Duration("grace") != 30*time.Second || params.String("absent") != "" || params.Has("absent") {
		t.Error("an accessor doesn't return what is there")
	}
}

func TestCheckParamsSaysWhatIsWrong(t *testing.T) {
	cases := map[string]struct {
		given map[string]any
		path  string
		words string
	}{
		"missing":         {map[string]any{}, "params.name", `"name" is required: What it is called.`},
		"null":            {map[string]any{"name": nil}, "params.name", "is required"},
		"misspelt":        {map[string]any{"name": "x", "prot": 1}, "params.prot", `There is no parameter "prot". Did you mean "port"? The parameters are count, drain,`},
		"unknown":         {map[string]any{"name": "x", "zzzzzzzz": 1}, "params.zzzzzzzz", `There is no parameter "zzzzzzzz". The parameters are`},
		"port text":       {map[string]any{"name": "x", "port": "http"}, "params.port", `"port" takes a port number from 1 to 65535, not the text "http".`},
		"port zero":       {map[string]any{"name": "x", "port": int64(0)}, "params.port", "not the number 0"},
		"port high":       {map[string]any{"name": "x", "port": int64(65536)}, "params.port", "not the number 65536"},
		"port fraction":   {map[string]any{"name": "x", "port": 80.5}, "params.port", "not the number 80.5"},
		"int huge":        {map[string]any{"name": "x", "count": 1e30}, "params.count", "a whole number"},
		"bool number":     {map[string]any{"name": "x", "sticky": int64(1)}, "params.sticky", "true or false, not the number 1"},
		"string list":     {map[string]any{"name": []any{"x"}}, "params.name", "a text, not a list of 1"},
		"duration":        {map[string]any{"name": "x", "timeout": "5 minutes"}, "params.timeout", "a duration such as"},
		"duration minus":  {map[string]any{"name": "x", "timeout": "-5s"}, "params.timeout", "a duration such as"},
		"map of list":     {map[string]any{"name": "x", "labels": map[string]any{"a": []any{}}}, `params.labels["a"]`, `entry "a" is a list of 0`},
		"map null":        {map[string]any{"name": "x", "labels": map[string]any{"a": nil}}, `params.labels["a"]`, `entry "a" is nothing`},
		"list of objects": {map[string]any{"name": "x", "hosts": []any{map[string]any{}}}, "params.hosts[0]", "a text, not an object with 0 entries"},
		"nested missing":  {map[string]any{"name": "x", "frontends": []any{map[string]any{"name": "in"}}}, "params.frontends[0].port", "is required"},
		"nested misspelt": {map[string]any{"name": "x", "frontends": []any{map[string]any{"name": "in", "port": 1, "mod": "tcp"}}}, "params.frontends[0].mod", `Did you mean "mode"?`},
		"nested check":    {map[string]any{"name": "x", "frontends": []any{map[string]any{"name": "in", "port": 1, "mode": "udp"}}}, "params.frontends[0].mode", `"mode" must be "http" or "tcp".`},
		"object":          {map[string]any{"name": "x", "drain": "no"}, "params.drain", `an object, not the text "no"`},
		"NUL":             {map[string]any{"name": "x\x00y"}, "params.name", "contains a NUL character"},
		"long text":       {map[string]any{"name": "x", "port": strings.Repeat("ä", 100)}, "params.port", strings.Repeat("ä", 40) + `"…`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, problems := CheckParams(everyKind, c.given)
			if len(problems) != 1 || problems[0].Path != c.path || !strings.Contains(problems[0].Detail, c.words) {
				t.Errorf("problems: %v; want one at %s with %q", problems, c.path, c.words)
			}
		})
	}
}

func TestCheckParamsReportsEveryProblem(t *testing.T) {
	_, problems := CheckParams(everyKind, map[string]any{"port": "x", "count": "y", "zz": 1, "aa": 1})
	var paths []string
	for _, p := range problems {
		paths = append(paths, p.Path)
	}
	if diff := cmp.Diff([]string{"params.name", "params.port", "params.count", "params.aa", "params.zz"}, paths); diff != "" {
		t.Error(diff)
	}
}

func TestATypeWithoutParametersSaysSo(t *testing.T) {
	_, problems := CheckParams(nil, map[string]any{"port": 1})
	if len(problems) != 1 || problems[0].Detail != `There is no parameter "port". There are no parameters.` {
		t.Error(problems)
	}
}
