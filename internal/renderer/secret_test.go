package renderer

import "testing"

func TestSecretParametersAreFoundWhereverTheyAre(t *testing.T) {
	spec := []Param{
		{Name: "port", Kind: Port},
		{Name: "tls", Kind: Object, Fields: []Param{{Name: "key", Kind: String, Secret: true}, {Name: "path", Kind: String}}},
		{Name: "users", Kind: List, Fields: []Param{{Name: "name", Kind: String}, {Name: "password", Kind: String, Secret: true}}},
	}
	for name, one := range map[string]struct {
		given map[string]any
		want  bool
	}{
		"none":           {nil, false},
		"others":         {map[string]any{"port": int64(80), "tls": map[string]any{"path": "/x"}, "users": []any{map[string]any{"name": "me"}}}, false},
		"not given":      {map[string]any{"tls": map[string]any{"key": nil}}, false},
		"in an object":   {map[string]any{"tls": map[string]any{"key": "k"}}, true},
		"in a list":      {map[string]any{"users": []any{map[string]any{"name": "me"}, map[string]any{"password": "p"}}}, true},
		"of other forms": {map[string]any{"tls": "text", "users": map[string]any{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := HasSecret(spec, one.given); got != one.want {
				t.Errorf("got %t, want %t", got, one.want)
			}
		})
	}
}
