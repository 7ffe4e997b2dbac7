package renderer

import "testing"

// What is read here lies in an instance's configuration, which an earlier release has written, or whoever may edit it.
func FuzzParseBinding(f *testing.F) {
	for _, text := range []string{
		``, `null`, `{}`, `[]`, `{"params":{"port":8080}}`, `{"params":{"port":8080},"upstreams":{"db":"pg"}}`, `{"params":{"port":8080},"upstreams":{"db":"pg"}} and more`,
		`{"params":{"port":"80","labels":{"a":1e21},"frontends":[{"upstream":"db","port":5432}],"options":{"big":9007199254740993}},"environment":{"LOG":"info"},"upstreams":{"db":"pg"}}`,
		`{"params":{"port":80,"mode":1e400},"upstreams":{"db":"pg"}}`, `{"params":{"port":80.0,"sticky":"true","hosts":[-0,1.5]},"environment":{},"upstreams":{"db":"pg"}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseBinding(proxyKind, text)
		if err != nil {
			if err.Error() == "" {
				t.Errorf("%q: an error without a word", text)
			}
			return
		}
		if len(a.Upstreams) == 0 {
			t.Fatalf("%q is a binding to nothing", text)
		}
		again, err := ParseBinding(proxyKind, BindingOf(a))
		if err != nil || BindingOf(again) != BindingOf(a) {
			t.Errorf("%q was read, written as %s, and read as %s (%v)", text, BindingOf(a), BindingOf(again), err)
		}
	})
}
