package renderer

import "testing"

func TestThePathOfAVolume(t *testing.T) {
	a := App{Volumes: []Volume{{Name: "outer", Path: "/var/lib"}, {Name: "inner", Path: "/var/lib/app/"}, {Name: "other", Path: "/srv"}}}
	for p, want := range map[string]string{
		"/var/lib": "outer", "/var/lib/x": "outer", "/var/lib/app": "inner", "/var/lib/app/db": "inner", "/var/lib/application": "outer",
		"/srv/": "other", "/var": "", "/srvx": "",
	} {
		if got, ok := a.VolumeAt(p); got.Name != want || ok != (want != "") {
			t.Errorf("%s is on %q, want %q", p, got.Name, want)
		}
	}
	if v, ok := a.Volume("inner"); !ok || v.Path != "/var/lib/app/" {
		t.Errorf("%+v", v)
	}
	if v, ok := a.Volume("none"); ok {
		t.Errorf("%+v", v)
	}
}

func TestAVolumeOfAllMembersHasManyWriters(t *testing.T) {
	if err := (Volume{Name: "data", Shared: true, ShareSafe: "so"}).OneWriter(); err == nil {
		t.Error("shared")
	}
	if err := (Volume{Name: "data"}).OneWriter(); err != nil {
		t.Error(err)
	}
}
