package version

import (
	"errors"
	"strings"
	"testing"
)

func TestParseReadsVersionsAsTheyAreWritten(t *testing.T) {
	cases := []struct {
		text   string
		series string // first three numbers
		pre    bool
		build  string
	}{
		{"1.27.3", "1.27.3", false, ""},
		{"v1.27.3", "1.27.3", false, ""},
		{"V2", "2.0.0", false, ""},
		{"7.0", "7.0.0", false, ""},
		{"24.04", "24.4.0", false, ""},
		{"2025.1.1", "2025.1.1", false, ""},
		{"2025-01-31", "2025.1.31", false, ""},
		{"20240612", "20240612.0.0", false, ""},
		{"2.6.12-1+deb12u2", "2.6.12", false, "1+deb12u2"},
		{"1:10.11.6-0+deb12u1", "10.11.6", false, "0+deb12u1"},
		{"1:2.6", "2.6.0", false, ""},
		{"2.6~rc1-1", "2.6.0", true, "1"},
		{"16.3-alpine", "16.3.0", false, "alpine"},
		{"16.3-alpine3.20", "16.3.0", false, "alpine3.20"},
		{"17-bookworm", "17.0.0", false, "bookworm"},
		{"16beta1", "16.0.0", true, ""},
		{"1.27.3-rc1", "1.27.3", true, ""},
		{"1.27.3-rc.1-alpine", "1.27.3", true, "alpine"},
		{"v1.31.0-alpha.2", "1.31.0", true, ""},
		{"v1.30.2+k3s1", "1.30.2", false, "k3s1"},
		{"3.13.0a4", "3.13.0", true, ""},
		{"1.1.1w", "1.1.1", false, ""},
		{"9.6p1", "9.6.16", false, ""},
		{"22.04.5-LTS", "22.4.5", false, "LTS"},
		{"15.18-1.pgdg120+1", "15.18.0", false, "1.pgdg120+1"},
		{"3.0.2-1~bpo12+1", "3.0.2", false, "1~bpo12+1"},
	}
	for _, c := range cases {
		v, err := Parse(c.text)
		if err != nil {
			t.Errorf("Parse(%q): %v", c.text, err)
			continue
		}
		if v.Series(3) != c.series || v.Prerelease() != c.pre || v.build != c.build || v.String() != c.text {
			t.Errorf("Parse(%q) = %s, pre-release %v, build %q", c.text, v.Series(3), v.Prerelease(), v.build)
		}
	}
}

func TestParseRefusesWhatNamesNoVersion(t *testing.T) {
	for _, text := range []string{
		"", "latest", "stable", "bookworm", "v", "-1", " 1.2", "1.2 ", "1..2", "1.2-", "1.2\n", "1.2é",
		"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"7d865e959b24", "123456789012", "1.99999999999999999999", "RELEASE.2024-06-11T03-13-09Z",
		strings.Repeat("1.", 200),
	} {
		if v, err := Parse(text); !errors.Is(err, ErrNoVersion) {
			t.Errorf("Parse(%q) = %v, %v; want ErrNoVersion", text, v, err)
		}
	}
}

func TestVersionsSortAsTheirMakersReleasedThem(t *testing.T) {
	for _, row := range []string{
		"1.9 1.10 1.27.3-rc1 1.27.3-rc2 1.27.3-rc10 1.27.3 1.27.4 2.0",
		"16beta1 16beta2 16rc1 16.0 16.3 17",
		"1.1.1 1.1.1a 1.1.1w 1.1.2",
		"2.6.12-1+deb12u1 2.6.12-1+deb12u2 2.6.12-1+deb12u10 2.6.12-2",
		"3.0.2-1~bpo12+1 3.0.2-1 3.0.2-1a 3.0.2-1+b1",
		"9.9 1:1.0",
		"2024-12-31 2025-01-01",
		"1.0-dev 1.0-alpha 1.0-beta.2 1.0-pre1 1.0-rc.1 1.0",
	} {
		texts := strings.Fields(row)
		for i := range texts {
			for j := range texts {
				a, errA := Parse(texts[i])
				b, errB := Parse(texts[j])
				if errA != nil || errB != nil {
					t.Fatal(errA, errB)
				}
				if got := a.Compare(b); sign(got) != sign(i-j) {
					t.Errorf("Compare(%s, %s) = %d", a, b, got)
				}
			}
		}
	}
}

func sign(n int) int { return max(-1, min(1, n)) }

func FuzzParse(f *testing.F) {
	for _, text := range []string{"v1.27.3", "2.6.12-1+deb12u2", "1:2.6~rc1", "16.3-alpine", "latest", "9.6p1", "1.2-\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrNoVersion) {
				t.Fatalf("Parse(%q): %v is no ErrNoVersion", text, err)
			}
			return
		}
		again, err := Parse(v.String())
		if err != nil || v.String() != text || again.Compare(v) != 0 {
			t.Fatalf("Parse(%q) = %q, which reads as %q, %v", text, v, again, err)
		}
		for _, appType := range []string{"nginx", "postgres", "galera"} {
			if change, why := Classify(appType, text, text); change != Same || why == "" {
				t.Fatalf("Classify(%s, %q, itself) = %s, %q", appType, text, change, why)
			}
		}
	})
}
