package rollout

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// What is read here was written by a workload's kernel, by a server, or by whoever edits an instance's configuration.

func FuzzEstablished(f *testing.F) {
	f.Add([]byte(sockets+sockets6+routes+interfaces), 80)
	f.Add([]byte("   0: 0500000A:0050 0700000A:8A3C 01 0 0\n"), 80)
	f.Add([]byte(":  : : 01\n     |-- x\n a b LOCAL\n"), 0)
	f.Fuzz(func(t *testing.T, tables []byte, port int) {
		n := established(tables, []int{port})
		if n < 0 || n > bytes.Count(tables, []byte("01")) {
			t.Errorf("%d connections in %q", n, tables)
		}
		if none := established(tables, nil); none != 0 {
			t.Errorf("%d connections to no port in %q", none, tables)
		}
	})
}

func FuzzBindings(f *testing.F) {
	for _, text := range []string{``, `null`, `{}`, `{"db":{"App":"db","Members":[{"Instance":"db-g0","Address":"10.0.0.5"}]}}`, `{"db":null}`, `[]`, `{"db":{}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := bindingsOf(map[string]string{app.KeyUpstreams: text})
		if err != nil {
			if !strings.Contains(err.Error(), app.KeyUpstreams) {
				t.Errorf("the error does not name the key: %v", err)
			}
			return
		}
		again, err := bindingsOf(map[string]string{app.KeyUpstreams: b.text()})
		if err != nil || again.text() != b.text() || len(again.differing(b)) > 0 {
			t.Errorf("%q was read as %s and that as %s (%v)", text, b.text(), again.text(), err)
		}
		_ = b.to("db-g0")
	})
}

func FuzzMark(f *testing.F) {
	for _, text := range []string{``, `null`, `{}`, `{"devices":{"eth0":{"type":"nic"}}}`, `{"last_used":"2026-01-01T00:00:00Z"}`, `{"devices":null`, `[]`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw := &incus.Instance{Name: "web-g0", Config: map[string]string{app.KeyHeld: text}}
		_, there, err := markOf(raw)
		if !there {
			t.Errorf("%q: there is no mark", text)
		}
		if err != nil && holds(raw) {
			t.Errorf("%q holds, but can't be read: %v", text, err)
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("not an archive"))
	f.Add(bytes.Repeat([]byte{0}, 1024))
	f.Fuzz(func(t *testing.T, archive []byte) {
		one, err := readManifest(bytes.NewReader(archive))
		two, again := readManifest(bytes.NewReader(archive))
		if (err == nil) != (again == nil) || err == nil && !reflect.DeepEqual(one, two) {
			t.Errorf("read twice: %v (%v), then %v (%v)", one, err, two, again)
		}
	})
}
