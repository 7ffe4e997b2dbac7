package outcome_test

import (
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

func TestWarningsOfOneTitleAreOne(t *testing.T) {
	diags := outcome.Warnings("App", "web", []rollout.Warning{{Title: "Left alone", Text: "one."}, {Title: "Volumes kept", Text: "data."}, {Title: "Left alone", Text: "two."}})
	var got []string
	for _, d := range diags {
		got = append(got, d.Severity().String()+" "+d.Summary()+" | "+d.Detail())
	}
	want := []string{"Warning Left alone | App \"web\":\n- one.\n- two.", `Warning Volumes kept | App "web": data.`}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %q, want %q", got, want)
	}
	if diags := outcome.Warnings("App", "web", nil); len(diags) > 0 {
		t.Errorf("without a warning there are %v", diags)
	}
}
