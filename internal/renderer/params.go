package renderer

import (
	"fmt"
	"slices"
	"time"
)

// Param is one parameter of an App type.
type Param struct {
	Name        string
	Kind        Kind
	Required    bool
	Default     any // nil for none
	Description string
	Fields      []Param         // of an Object, and of the objects in a List; a List without Fields holds texts
	Check       func(any) error // of a value that has the right kind; nil accepts every one
	Secret      bool            // is kept nowhere but in Terraform's state
}

// Kind is the form of a parameter's value.
type Kind string

// The kinds.
const (
	String   Kind = "string"
	Port     Kind = "port"     // whole number from 1 to 65535
	Int      Kind = "int"      // whole number
	Bool     Kind = "bool"     //
	Duration Kind = "duration" // text such as "30s"
	Texts    Kind = "map"      // map of texts
	List     Kind = "list"     // of objects, or of texts
	Object   Kind = "object"   //
)

// kindWords say what a kind takes, for error messages.
var kindWords = map[Kind]string{
	String:   "a text",
	Port:     "a port number from 1 to 65535",
	Int:      "a whole number",
	Bool:     "true or false",
	Duration: `a duration such as "30s" or "5m"`,
	Texts:    "a map of texts",
	List:     "a list",
	Object:   "an object",
}

// Params are the parameters of an App after CheckParams: each declared one has its value or default, and is absent where
// it has neither. Values are string, int64, float64, bool, []any, map[string]any. The accessors return the zero value of
// what is absent, and panic on a parameter that is of another kind: that is a mistake in the App type's code.
type Params map[string]any

// Has tells whether the parameter has a value.
func (p Params) Has(name string) bool { return p[name] != nil }

// String returns a text.
func (p Params) String(name string) string { return value[string](p, name) }

// Int returns a whole number or a port.
func (p Params) Int(name string) int { return int(value[int64](p, name)) }

// Bool returns a truth value.
func (p Params) Bool(name string) bool { return value[bool](p, name) }

// Duration returns a duration.
func (p Params) Duration(name string) time.Duration {
	text := p.String(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("renderer: parameter %q is read as a duration but is %q", name, text))
	}
	return d
}

// Texts returns a map of texts.
func (p Params) Texts(name string) map[string]string {
	texts := map[string]string{}
	for key, v := range value[map[string]any](p, name) {
		texts[key] = v.(string)
	}
	return texts
}

// Strings returns a list of texts.
func (p Params) Strings(name string) []string {
	var texts []string
	for _, v := range value[[]any](p, name) {
		texts = append(texts, v.(string))
	}
	return texts
}

// Object returns an object's fields.
func (p Params) Object(name string) Params { return value[map[string]any](p, name) }

// Objects returns a list of objects.
func (p Params) Objects(name string) []Params {
	var objects []Params
	for _, v := range value[[]any](p, name) {
		objects = append(objects, v.(map[string]any))
	}
	return objects
}

func value[T any](p Params, name string) T {
	var none T
	v, ok := p[name]
	if !ok || v == nil {
		return none
	}
	typed, ok := v.(T)
	if !ok {
		panic(fmt.Sprintf("renderer: parameter %q is read as %T but is %T", name, none, v))
	}
	return typed
}

// paramNames returns the names that a specification declares, sorted.
func paramNames(spec []Param) []string {
	names := make([]string, 0, len(spec))
	for _, p := range spec {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}
