package app

import (
	"strings"
	"testing"
	"time"
)

func TestTagsComeBackAsWritten(t *testing.T) {
	want := Tags{
		App: "web", Type: "nginx", Member: "0", Generation: 3, Image: "abc", Version: "1.2.3", Spec: "s", Hot: "h",
		HealthySince: time.Date(2026, 11, 29, 12, 0, 0, 5, time.UTC), Phase: Active, Term: 7,
	}
	got, ours, err := ParseTags(want.Config())
	if err != nil || !ours || got != want {
		t.Errorf("got %+v, %v, %v", got, ours, err)
	}
	for key := range want.Config() {
		if !OurKey(key) {
			t.Errorf("%s is not told to be ours", key)
		}
	}
}

func TestParseTags(t *testing.T) {
	if _, ours, err := ParseTags(map[string]string{"user.backup": "nightly"}); ours || err != nil {
		t.Errorf("an instance without our tags is taken for ours (%v)", err)
	}
	valid := Tags{App: "web", Member: "0", Phase: Candidate}.Config()
	for key, value := range map[string]string{KeyGeneration: "-1", KeyMember: "", KeyPhase: "almost", KeyHealthySince: "noon", KeyTerm: "x"} {
		broken := map[string]string{}
		for k, v := range valid {
			broken[k] = v
		}
		broken[key] = value
		if _, ours, err := ParseTags(broken); !ours || err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s = %q: got %v, %v", key, value, ours, err)
		}
	}
}

func FuzzParseTags(f *testing.F) {
	f.Add("web", "0", "3", "active", "2026-11-29T12:00:00Z", "1")
	f.Fuzz(func(t *testing.T, name, member, generation, phase, since, term string) {
		tags, ours, err := ParseTags(map[string]string{KeyApp: name, KeyMember: member, KeyGeneration: generation, KeyPhase: phase, KeyHealthySince: since, KeyTerm: term})
		if err == nil && ours && (tags.Generation < 0 || tags.Member == "") {
			t.Errorf("took %+v", tags)
		}
	})
}
