package outcome

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// observationKey is where private state holds what was last observed. A plan needs more of it than the attributes show
// (hashes, left-overs of an earlier run) and may not ask the server: it must be the same when Terraform makes it again.
const observationKey = "observation"

// Private is the private state of a request or response.
type Private interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

// PrivateSetter is the private state of a response.
type PrivateSetter interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// Remember keeps what was observed.
func Remember(ctx context.Context, to PrivateSetter, o rollout.Observation) diag.Diagnostics {
	text, err := json.Marshal(o)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Observation can't be stored", err.Error()+". Please report this.")}
	}
	return to.SetKey(ctx, observationKey, text)
}

// Recall returns what was last observed, and whether private state has that.
func Recall(ctx context.Context, from Private) (o rollout.Observation, kept bool, diags diag.Diagnostics) {
	text, diags := from.GetKey(ctx, observationKey)
	if diags.HasError() || len(text) == 0 {
		return rollout.Observation{}, false, diags
	}
	return o, json.Unmarshal(text, &o) == nil, diags
}
