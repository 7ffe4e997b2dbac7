package renderer

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CheckParams checks what a user gave against a specification and fills in defaults. Values come in as string, int64,
// float64, bool, []any or map[string]any; nil is the same as not given. Between texts, numbers and truth values it
// converts as Terraform itself does, so that port = "8080" is a port. All problems are reported, in the order of the
// specification, unknown names last.
func CheckParams(spec []Param, given map[string]any) (Params, []Problem) {
	return checkFields("params", spec, given)
}

func checkFields(path string, spec []Param, given map[string]any) (Params, []Problem) {
	checked := Params{}
	var problems []Problem
	known := map[string]bool{}
	for _, p := range spec {
		known[p.Name] = true
		at := path + "." + p.Name
		v := given[p.Name]
		if v == nil {
			if p.Required {
				problems = append(problems, Problem{at, "Missing parameter", fmt.Sprintf("%q is required: %s", p.Name, p.Description)})
				continue
			}
			v = p.Default
		}
		if v == nil {
			continue
		}
		value, found := checkValue(at, p, v)
		problems = append(problems, found...)
		if len(found) == 0 {
			checked[p.Name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !known[name] {
			problems = append(problems, Problem{path + "." + name, "Unknown parameter",
				fmt.Sprintf("There is no parameter %q. %s", name, suggestion(name, paramNames(spec), "parameters"))})
		}
	}
	return checked, problems
}

// checkValue returns a value in the form that its kind has in Params.
func checkValue(at string, p Param, v any) (any, []Problem) {
	wrong := func() (any, []Problem) {
		return nil, []Problem{{at, "Wrong type of parameter", fmt.Sprintf("%q takes %s, not %s.", p.Name, kindWords[p.Kind], describe(v))}}
	}
	invalid := func(why string) (any, []Problem) {
		return nil, []Problem{{at, "Invalid parameter", fmt.Sprintf("%q %s.", p.Name, why)}}
	}
	var checked any
	switch p.Kind {
	case String, Duration:
		text, ok := asText(v)
		if !ok {
			return wrong()
		}
		if strings.ContainsRune(text, 0) {
			return invalid("contains a NUL character")
		}
		if p.Kind == Duration {
			if d, err := time.ParseDuration(text); err != nil || d < 0 {
				return wrong()
			}
		}
		checked = text
	case Int, Port:
		n, ok := asWhole(v)
		if !ok || p.Kind == Port && (n < 1 || n > math.MaxUint16) {
			return wrong()
		}
		checked = n
	case Bool:
		truth, ok := asTruth(v)
		if !ok {
			return wrong()
		}
		checked = truth
	case Texts:
		entries, ok := v.(map[string]any)
		if !ok {
			return wrong()
		}
		texts := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			text, ok := asText(entries[key])
			switch {
			case !ok:
				return nil, []Problem{{fmt.Sprintf("%s[%q]", at, key), "Wrong type of parameter",
					fmt.Sprintf("%q takes a map of texts, and its entry %q is %s.", p.Name, key, describe(entries[key]))}}
			case strings.ContainsRune(key+text, 0):
				return invalid(fmt.Sprintf("contains a NUL character in its entry %q", key))
			}
			texts[key] = text
		}
		checked = texts
	case List:
		items, ok := v.([]any)
		if !ok {
			return wrong()
		}
		list, problems := checkItems(at, p, items)
		if len(problems) > 0 {
			return nil, problems
		}
		checked = list
	case Object:
		fields, ok := v.(map[string]any)
		if !ok {
			return wrong()
		}
		object, problems := checkFields(at, p.Fields, fields)
		if len(problems) > 0 {
			return nil, problems
		}
		checked = map[string]any(object)
	default:
		panic(fmt.Sprintf("renderer: parameter %q is of the unknown kind %q", p.Name, p.Kind))
	}
	if p.Check != nil {
		if err := p.Check(checked); err != nil {
			return nil, []Problem{{at, "Invalid parameter", fmt.Sprintf("%q %s.", p.Name, err)}}
		}
	}
	return checked, nil
}

func checkItems(at string, p Param, items []any) ([]any, []Problem) {
	list := make([]any, 0, len(items))
	var problems []Problem
	item := Param{Name: p.Name, Kind: String}
	if p.Fields != nil {
		item = Param{Name: p.Name, Kind: Object, Fields: p.Fields}
	}
	for i, v := range items {
		checked, found := checkValue(fmt.Sprintf("%s[%d]", at, i), item, v)
		problems = append(problems, found...)
		list = append(list, checked)
	}
	return list, problems
}

func asText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	if n, ok := asWhole(v); ok {
		return strconv.FormatInt(n, 10), true
	}
	return "", false
}

func asWhole(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case float64:
		// Beyond 2^53 a float64 no longer tells whole numbers apart.
		return int64(v), v == math.Trunc(v) && math.Abs(v) <= 1<<53
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	}
	return 0, false
}

func asTruth(v any) (truth, ok bool) {
	switch v {
	case true, "true":
		return true, true
	case false, "false":
		return false, true
	}
	return false, false
}

// describe says what was given, short enough for a message.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		if runes := []rune(v); len(runes) > 40 {
			return fmt.Sprintf("the text %q…", string(runes[:40]))
		}
		return fmt.Sprintf("the text %q", v)
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case map[string]any:
		return fmt.Sprintf("an object with %d entries", len(v))
	}
	if text, ok := asText(v); ok {
		return "the number " + text
	}
	return fmt.Sprintf("a %T", v)
}
