package instance

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/connection"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
	"github.com/homelabops/terraform-provider-homelabops/internal/version"
)

// found is what private state keeps of a machine that somebody made by hand, from its import until an apply has written our
// tags on it. The zero value is of a machine that we made.
type found struct {
	Unclaimed   bool     `json:"unclaimed"`
	Fingerprint string   `json:"fingerprint,omitempty"` // of the image that it was made from
	Images      []string `json:"images,omitempty"`      // references that lead to that image; none where the server doesn't have it any more
	Moved       bool     `json:"moved,omitempty"`       // comes from another resource's state, and was not seen on the server yet
}

// foundKey is where private state has it.
const foundKey = "found"

func recallFound(ctx context.Context, from outcome.Private) (found, diag.Diagnostics) {
	text, diags := from.GetKey(ctx, foundKey)
	var f found
	if len(text) > 0 {
		if err := json.Unmarshal(text, &f); err != nil {
			diags.AddError("Private state can't be read", err.Error()+". Please report this.")
		}
	}
	return f, diags
}

func (f found) remember(ctx context.Context, to outcome.PrivateSetter) diag.Diagnostics {
	text, err := json.Marshal(f)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Import can't be stored", err.Error()+". Please report this.")}
	}
	return to.SetKey(ctx, foundKey, text)
}

// pending tells whether the machine is still to be taken over.
func (f found) pending() bool { return f.Unclaimed }

// madeFrom tells whether an image reference may be of the image that the machine was made from. Where the server doesn't
// have that image any more, the user's word is taken for it.
func (f found) madeFrom(reference string) bool {
	if len(f.Images) == 0 || slices.Contains(f.Images, reference) {
		return true
	}
	parsed, err := version.ParseImage(reference)
	return err == nil && parsed.Fingerprint != "" && strings.HasPrefix(f.Fingerprint, parsed.Fingerprint)
}

// imageNames are the references that lead to an image, the one that a user would write first.
func imageNames(image *incus.Image, c *connection.Connection) []string {
	var names []string
	if from := image.UpdateSource; from != nil {
		for _, remote := range sortedRemotes(c) {
			if strings.TrimSuffix(c.Remotes[remote].Server, "/") == strings.TrimSuffix(from.Server, "/") {
				names = append(names, remote+":"+from.Alias)
			}
		}
	}
	for _, alias := range image.Aliases {
		names = append(names, alias.Name)
	}
	return append(names, image.Fingerprint)
}

func sortedRemotes(c *connection.Connection) []string {
	var names []string
	for name := range c.Remotes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
