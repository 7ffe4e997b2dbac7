//go:build lab

package provider_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

// changing is what of an instance changes by itself, or with the time.
var changing = regexp.MustCompile(`"(last_used_at|volatile\.[a-z0-9._]+)": "[^"]*"|"used_by": \[[^\]]*\]`)

// TestLabNothingOfOthersIsTouched makes, upgrades, scales and removes an App among things that have the names it would use: of
// an App of the same name in another project, and of nobody's.
func TestLabNothingOfOthersIsTouched(t *testing.T) {
	s := newStage(t, "web/1.0.0", "web/1.1.0")
	theirs := newStageOn(t, s.Lab)
	built, err := builtProvider()
	if err != nil {
		t.Fatal(err)
	}
	other := theirs.configuration(built)
	other.apply("the other project's App", theirs.web("web/1.0.0", 1))

	const forward = "description: somebody's\nports:\n- {protocol: tcp, listen_port: \"8443\", target_address: %s}\n"
	taken := s.ForwardAddress(t)
	if _, err := s.IncusWith(t.Context(), fmt.Sprintf(forward, s.StaticAddress(40)), "network", "forward", "create", s.Network(), taken); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web-1-g1", "web-2-g0"} {
		s.incus("init", "web/1.0.0", name, "--quiet")
	}
	s.incus("storage", "volume", "create", s.Pool(), "web-0-data")
	inTheWay := "web-1-g1"
	look := func() string {
		var all strings.Builder
		for _, path := range []string{
			"instances/web-g0?project=" + theirs.project, "networks/" + s.Network() + "/forwards/" + theirs.listen, "networks/" + s.Network() + "/forwards/" + taken,
			"instances/" + inTheWay + "?project=" + s.project, "instances/web-2-g0?project=" + s.project, "storage-pools/" + s.Pool() + "/volumes/custom/web-0-data?project=" + s.project,
			"profiles/default?project=" + s.project,
		} {
			out, err := s.Incus(t.Context(), "query", "/1.0/"+path)
			if err != nil {
				out = err.Error()
			}
			fmt.Fprintf(&all, "%s: %s\n", path, changing.ReplaceAllString(out, ""))
		}
		return all.String()
	}
	before := look()
	untouched := func(*terraform.State) error {
		if now := look(); now != before {
			return fmt.Errorf("what others have is\n%s\nand was\n%s", now, before)
		}
		return nil
	}
	elsewhere := *s
	s.run(
		resource.TestStep{Config: s.web("web/1.0.0", 2), Check: untouched},
		resource.TestStep{Config: s.web("web/1.1.0", 2), ExpectError: words(`instance "web-1-g1" exists and does not carry the tags`)},
		resource.TestStep{Config: s.web("web/1.0.0", 3), ExpectError: words(`instance "web-2-g0" exists and does not carry the tags`)},
		resource.TestStep{Config: func() string { elsewhere.listen = theirs.listen; return elsewhere.web("web/1.0.0", 2) }(), ExpectError: words("is App \"web\"'s in project")},
		resource.TestStep{Config: func() string { elsewhere.listen = taken; return elsewhere.web("web/1.0.0", 2) }(), ExpectError: words("is somebody else's: choose another")},
		resource.TestStep{
			PreConfig: func() {
				s.incus("rename", inTheWay, "spare")
				inTheWay = "spare"
				before = look()
			},
			Config: s.web("web/1.1.0", 2), Check: untouched,
		},
		resource.TestStep{Config: s.web("web/1.1.0", 1), Check: untouched},
	)
	if err := untouched(nil); err != nil {
		t.Error(err)
	}
	if err := s.has("spare", "web-2-g0"); err != nil {
		t.Error(err)
	}
	other.settled("after all that")
	if out, err := other.w.Destroy(t.Context()); err != nil || out.Code != 0 {
		t.Errorf("destroy: %v\n%s", err, out.Text)
	}
}
