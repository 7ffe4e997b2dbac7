package incustest

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// filter is a parsed filter expression: clauses joined from left to right.
type filter []clause

// clause is one comparison.
type clause struct {
	or      bool // joined to what stands before it by "or" instead of "and"
	not     bool
	field   string
	unequal bool
	value   string
	pattern *regexp.Regexp // nil where the value is no regular expression
}

// parseFilter reads the API's filter language as Incus 6.0 does: values are regular expressions that must match as a
// whole, without regard to case; a value in quotes must have a space in it.
func parseFilter(text string) (filter, error) {
	var out filter
	words := strings.Fields(text)
	bad := func(what string) error { return fail(http.StatusBadRequest, "Invalid filter: "+what) }
	for at := 0; at < len(words); {
		var c clause
		if len(out) > 0 {
			switch words[at] {
			case "and":
			case "or":
				c.or = true
			default:
				return nil, bad("invalid logical operator")
			}
			at++
		}
		if at < len(words) && words[at] == "not" {
			c.not = true
			at++
		}
		if at >= len(words) {
			return nil, bad("clause has no field")
		}
		c.field = words[at]
		if at+1 >= len(words) {
			return nil, bad("clause has no operator")
		}
		switch words[at+1] {
		case "eq":
		case "ne":
			c.unequal = true
		default:
			return nil, fail(http.StatusInternalServerError, "Unsupported operation")
		}
		if at+2 >= len(words) {
			return nil, bad("clause has no value")
		}
		c.value = words[at+2]
		at += 3
		if strings.HasPrefix(c.value, `"`) {
			for {
				if at >= len(words) {
					return nil, bad("unterminated quote")
				}
				c.value += " " + words[at]
				at++
				if strings.HasSuffix(c.value, `"`) {
					break
				}
			}
			c.value = strings.Trim(c.value, `"`)
		}
		if pattern, err := regexp.Compile("(?i)^(?:" + c.value + ")$"); err == nil {
			c.pattern = pattern
		}
		out = append(out, c)
	}
	return out, nil
}

// holds tells whether something passes, whose fields are read by their JSON names.
func (f filter) holds(fieldOf func(field string) (string, error)) (bool, error) {
	result := true
	for n, c := range f {
		value, err := fieldOf(c.field)
		if err != nil {
			return false, err
		}
		equal := strings.EqualFold(value, c.value)
		if c.pattern != nil {
			equal = c.pattern.MatchString(value)
		}
		passes := (equal != c.unequal) != c.not
		switch {
		case n == 0:
			result = passes
		case c.or:
			result = result || passes
		default:
			result = result && passes
		}
	}
	return result, nil
}

// fieldOfInstance reads a field by its JSON name. A config key that is not set is empty.
func fieldOfInstance(i incus.Instance, field string) (string, error) {
	if name, ok := strings.CutPrefix(field, "config."); ok {
		return i.Config[name], nil
	}
	if name, ok := strings.CutPrefix(field, "expanded_config."); ok {
		return i.ExpandedConfig[name], nil
	}
	switch field {
	case "name":
		return i.Name, nil
	case "project":
		return i.Project, nil
	case "location":
		return i.Location, nil
	case "type":
		return i.Type, nil
	case "status":
		return i.Status, nil
	case "description":
		return i.Description, nil
	case "architecture":
		return i.Architecture, nil
	}
	return "", fail(http.StatusInternalServerError, `Invalid type "invalid" for field "`+field+`"`)
}

// fieldOfVolume is the same for a volume.
func fieldOfVolume(v incus.StorageVolume, field string) (string, error) {
	if name, ok := strings.CutPrefix(field, "config."); ok {
		return v.Config[name], nil
	}
	value, ok := map[string]string{
		"name": v.Name, "type": v.Type, "content_type": v.ContentType, "description": v.Description, "location": v.Location, "project": v.Project,
	}[field]
	if !ok {
		return "", fail(http.StatusInternalServerError, `Invalid type "invalid" for field "`+field+`"`)
	}
	return value, nil
}
