package rollout

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/version"
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
	for _, text := range []string{``, `null`, `{}`, `{"devices":{"eth0":{"type":"nic"}}}`, `{"last_used":"2026-01-01T00:00:00Z"}`, `{"autostart":"true"}`, `{"devices":null`, `[]`} {
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
	f.Add([]byte{}, "", "", int64(0), []byte{})
	f.Add([]byte("not an archive"), "", "", int64(0), []byte{})
	f.Add([]byte{}, "backup/volume/", "", int64(0), []byte{})
	f.Add([]byte{}, "backup/volume/a b", "user.x", int64(1_700_000_000), []byte("text"))
	f.Add([]byte{}, "backup/index.yaml", "", int64(-1), []byte("name: data"))
	f.Add([]byte{}, "backup/volume-snapshots/s0/a", "", int64(1)<<40, []byte("text"))
	f.Add([]byte{}, "backup/volume/../../etc/passwd", "", int64(0), []byte("text"))
	f.Fuzz(func(t *testing.T, tail []byte, name, xattr string, modified int64, content []byte) {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		header := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644, ModTime: time.Unix(modified, 0), Format: tar.FormatPAX}
		if xattr != "" {
			header.PAXRecords = map[string]string{"SCHILY.xattr." + xattr: "1"}
		}
		if w.WriteHeader(&header) == nil {
			_, _ = w.Write(content)
			_ = w.Flush()
		}
		whole := append(archive.Bytes(), tail...)
		one, err := readManifest(bytes.NewReader(whole))
		two, again := readManifest(bytes.NewReader(whole))
		if (err == nil) != (again == nil) || err == nil && !reflect.DeepEqual(one, two) {
			t.Errorf("read twice: %v (%v), then %v (%v)", one, err, two, again)
		}
		for path := range one {
			if !strings.HasPrefix(path, "/") {
				t.Errorf("%q has the path %q", name, path)
			}
		}
		if len(content) == 0 || len(one) != 1 {
			return
		}
		whole[archive.Len()-512+(len(content)-1)%512] ^= 1 // the last byte of the content
		if other, err := readManifest(bytes.NewReader(whole)); err != nil || reflect.DeepEqual(one, other) {
			t.Errorf("%q: other content has the same manifest (%v)", name, err)
		}
	})
}

func FuzzTerms(f *testing.F) {
	for _, digits := range []string{"7", "07", "+7", "-7", "0", "", "x", "7 ", "9223372036854775807", "9223372036854775808", "7_0"} {
		f.Add(digits, "run", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "false")
	}
	f.Add("7", "", "", "soon", "true")
	f.Add("7", "run", "2026-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z", "TRUE")
	f.Fuzz(func(t *testing.T, digits, holder, acquired, expires, released string) {
		now := time.Date(2026, time.January, 1, 0, 0, 30, 0, time.UTC)
		c := chain{prefix: leaseName("apps", "web")}
		written := incus.Profile{Name: c.prefix + digits, Config: map[string]string{keyHolder: holder, keyAcquired: acquired, keyExpires: expires, keyReleased: released}}
		c.profiles = shelved{now, []incus.Profile{c.profile(record{Term: 5, Holder: "other"}), written}}
		all, _, err := c.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			// What is read is written and deleted by its term.
			if name := c.name(r.Term); name != written.Name && name != c.name(5) || r.Term < 1 {
				t.Errorf("%q is the term %d, whose profile is %q", written.Name, r.Term, name)
			}
			if _, unread := time.Parse(time.RFC3339, expires); r.Term != 5 && unread != nil && released != "true" && !r.live(now) {
				t.Errorf("expires %q, and is over", expires)
			}
		}
		if last := all.last(); len(all) == 0 || last.Term < 5 || len(all) > 2 {
			t.Errorf("%q: %+v", digits, all)
		}
	})
}

// shelved are profiles that a server has.
type shelved struct {
	now time.Time
	all []incus.Profile
}

func (l shelved) GetProfilesAt(context.Context) ([]incus.Profile, time.Time, error) {
	return l.all, l.now, nil
}
func (shelved) GetProfile(context.Context, string) (*incus.Profile, string, error) {
	return nil, "", incus.ErrForbidden
}
func (shelved) CreateProfile(context.Context, incus.Profile) error { return incus.ErrForbidden }
func (shelved) UpdateProfile(context.Context, string, incus.Profile, string) error {
	return incus.ErrForbidden
}
func (shelved) DeleteProfile(context.Context, string) error { return incus.ErrForbidden }

func FuzzForward(f *testing.F) {
	f.Add("203.0.113.7", "80", "8080", "10.0.0.5", "443", "", "10.0.0.5")
	f.Add("2001:db8::7", "80-90", "80,81", "10.0.0.5", "-1", "99999", "10.0.0.6")
	f.Add("::ffff:203.0.113.7", "", "0", "", "x", "+80", "")
	f.Fuzz(func(t *testing.T, listen, port, target, to, port2, target2, to2 string) {
		raw := incus.NetworkForward{ListenAddress: listen, Ports: []incus.NetworkForwardPort{
			{Protocol: "tcp", ListenPort: port, TargetPort: target, TargetAddress: to}, {Protocol: "udp", ListenPort: port2, TargetPort: target2, TargetAddress: to2},
		}}
		read := readForward("br0", raw)
		if len(read.Ports) != 2 || to != to2 && read.Target != "" || to == to2 && read.Target != to {
			t.Errorf("%+v was read as %+v", raw, read)
		}
		// One that is as wished is one that would be written so.
		e := &Engine{Incus: nobody{}}
		written := e.forwardFor("web", &Endpoint{ListenAddress: listen, Ports: read.Ports}, read.Target)
		if again := readForward("br0", written); !slices.Equal(again.Ports, read.Ports) || again.Target != read.Target {
			t.Errorf("%+v was read as %+v, written as %+v and read as %+v", raw, read, written, again)
		}
		if once := canonical(listen); canonical(once) != once {
			t.Errorf("%q is written %q, and that %q", listen, once, canonical(once))
		}
	})
}

// nobody is an Incus whose project is the default one.
type nobody struct{ Incus }

func (nobody) Project() string { return "" }

func FuzzVolumeGeneration(f *testing.F) {
	for _, name := range []string{"web-data-g3", "web-data", "web-g", "-g0", "g1", "web-g-1", "web-g+5", "web-g007", "web-g3-g", "web-g99999999999999999999", "web-g1-g2"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if n := volumeGeneration(name); n < -1 || n >= 0 && !strings.HasSuffix(name, fmt.Sprintf("-g%d", n)) {
			t.Errorf("%q is of generation %d", name, n)
		}
	})
}

func FuzzImageSource(f *testing.F) {
	for _, image := range []string{"web/1.0.0", "images:debian/13", "docker:nginx:1.27@sha256:" + strings.Repeat("ab", 32), "far:x", strings.Repeat("ab", 32), "images:" + strings.Repeat("ab", 32), "images:"} {
		f.Add(image)
	}
	remotes := map[string]ImageRemote{"images": {Server: "https://images.example.net", Protocol: "simplestreams"}, "docker": {Server: "https://docker.io", Protocol: "oci"}}
	f.Fuzz(func(t *testing.T, image string) {
		ref, err := version.ParseImage(image)
		if err != nil {
			return
		}
		source, err := imageSource(ref, remotes)
		switch {
		case err != nil:
			if _, known := remotes[ref.Remote]; known || ref.Remote == "" || !strings.Contains(err.Error(), "image_remotes") {
				t.Errorf("%q: %v", image, err)
			}
		case (source.Alias == "") == (source.Fingerprint == "") || (source.Server == "") != (ref.Remote == ""):
			t.Errorf("%q is got as %+v", image, source)
		}
	})
}
