package renderer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrUnknownType is that no App type has a name.
var ErrUnknownType = errors.New("unknown App type")

// Registry holds the App types that there are, by name.
type Registry struct {
	renderers map[string]Renderer
}

// NewRegistry returns a registry of the given types. Two of one name are an error, and so is one that names other Apps and
// can't be bound to their members anew.
func NewRegistry(renderers ...Renderer) (*Registry, error) {
	r := &Registry{renderers: map[string]Renderer{}}
	for _, renderer := range renderers {
		name := renderer.Type().Name
		if name == "" {
			return nil, fmt.Errorf("renderer %T has a type without a name", renderer)
		}
		if other, taken := r.renderers[name]; taken {
			return nil, fmt.Errorf("App type %q is registered twice: %T and %T", name, other, renderer)
		}
		if err := bindable(renderer); err != nil {
			return nil, err
		}
		r.renderers[name] = renderer
	}
	return r, nil
}

// bindable tells why a type with upstreams can't have any: its instances are reloaded by the runs of other Apps, from
// parameters that are kept where others read them.
func bindable(r Renderer) error {
	t := r.Type()
	if len(t.Upstreams) == 0 {
		return nil
	}
	if _, ok := r.(Reloader); !ok {
		return fmt.Errorf("App type %q names other Apps, but %T can't reload", t.Name, r)
	}
	if declaresSecret(t.Params) {
		return fmt.Errorf("App type %q names other Apps, and has a secret parameter: what its files are rendered from is kept on its instances; use a secret instead", t.Name)
	}
	return nil
}

// Get returns the renderer of a type, or an ErrUnknownType that names the nearest one and all there are.
func (r *Registry) Get(name string) (Renderer, error) {
	if renderer, ok := r.renderers[name]; ok {
		return renderer, nil
	}
	return nil, fmt.Errorf("%w %q. %s", ErrUnknownType, name, strings.TrimSuffix(suggestion(name, r.Types(), "types"), "."))
}

// Types returns the names of all types, sorted.
func (r *Registry) Types() []string { return slices.Sorted(maps.Keys(r.renderers)) }
