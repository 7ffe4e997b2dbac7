package renderer

import "slices"

// HasSecret tells whether parameters as the user gave them hold a secret one, so that they must not be kept where others
// read them.
func HasSecret(spec []Param, given map[string]any) bool {
	for _, p := range spec {
		value := given[p.Name]
		if value == nil {
			continue
		}
		if p.Secret {
			return true
		}
		if fields, ok := value.(map[string]any); ok && HasSecret(p.Fields, fields) {
			return true
		}
		if items, ok := value.([]any); ok {
			for _, item := range items {
				if fields, ok := item.(map[string]any); ok && HasSecret(p.Fields, fields) {
					return true
				}
			}
		}
	}
	return false
}

// declaresSecret tells whether a specification has a secret parameter.
func declaresSecret(spec []Param) bool {
	return slices.ContainsFunc(spec, func(p Param) bool { return p.Secret || declaresSecret(p.Fields) })
}
