package renderer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Binding is what the hot files of an App that names others are rendered from, beside who it is and who their members are.
// It is kept on the App's instances, so that the run of an upstream can bind them to its new members without the App's own
// configuration, which may be in another Terraform state.
type Binding struct {
	Params      Params            `json:"params,omitempty"` // checked
	Environment map[string]string `json:"environment,omitempty"`
	Upstreams   map[string]string `json:"upstreams"` // the Apps, by the names that this one has for them
}

// BindingOf returns the text that is kept of an App, empty for one that names no other. The same App has the same text.
func BindingOf(a App) string {
	if len(a.Upstreams) == 0 {
		return ""
	}
	b := Binding{Params: a.Params, Environment: a.Environment, Upstreams: map[string]string{}}
	for name, u := range a.Upstreams {
		b.Upstreams[name] = u.App
	}
	text, err := json.Marshal(b)
	if err != nil {
		panic(fmt.Sprintf("renderer: a binding can't be written as JSON: %v", err)) // holds texts, numbers and truth values only
	}
	return string(text)
}

// ParseBinding reads the text again, as the parts of an App of a type that it says. An error says what of it does not fit,
// as after a change of the type's parameters by another release.
func ParseBinding(t Type, text string) (App, error) {
	var b Binding
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&b); err != nil {
		return App{}, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return App{}, errors.New("something follows its end")
	}
	if len(b.Upstreams) == 0 {
		return App{}, errors.New("it names no App")
	}
	a := App{Type: t.Name, Environment: b.Environment, Upstreams: map[string]Upstream{}}
	given := map[string]any{}
	for name, v := range b.Params {
		given[name] = withoutNumbers(v)
	}
	var problems []Problem
	a.Params, problems = CheckParams(t.Params, given)
	for name, other := range b.Upstreams {
		a.Upstreams[name] = Upstream{App: other}
	}
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return a, errors.Join(errs...)
}

// withoutNumbers makes whole numbers of JSON what CheckParams takes.
func withoutNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		items := make([]any, 0, len(v))
		for _, item := range v {
			items = append(items, withoutNumbers(item))
		}
		return items
	case map[string]any:
		fields := map[string]any{}
		for name, field := range v {
			fields[name] = withoutNumbers(field)
		}
		return fields
	}
	return v
}

// WithMembers returns the App with members in its upstreams. Those that lists has nothing of get none.
func (a App) WithMembers(lists map[string]Upstream) App {
	bound := map[string]Upstream{}
	for name, u := range a.Upstreams {
		if list, ok := lists[name]; ok && list.App == u.App {
			u = list
		}
		bound[name] = u
	}
	a.Upstreams = bound
	return a
}

// Named returns the Apps that an App names, sorted, each once.
func (a App) Named() []string {
	named := map[string]bool{}
	for _, u := range a.Upstreams {
		named[u.App] = true
	}
	return slices.Sorted(maps.Keys(named))
}
