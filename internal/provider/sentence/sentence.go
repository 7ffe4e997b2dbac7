// Package sentence makes sentences for users out of the texts of errors.
package sentence

import "strings"

// Of makes a sentence of an error's text.
func Of(err error) string {
	text := err.Error()
	if text == "" {
		return text
	}
	return End(strings.ToUpper(text[:1]) + text[1:])
}

// End ends a sentence with one stop.
func End(text string) string { return strings.TrimSuffix(text, ".") + "." }
