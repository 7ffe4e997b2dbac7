package app

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/outcome"
)

// leaseModel is the lease of the run that works on an App.
type leaseModel struct {
	Holder   types.String `tfsdk:"holder"`
	Term     types.Int64  `tfsdk:"term"`
	Acquired types.String `tfsdk:"acquired"`
	Expires  types.String `tfsdk:"expires"`
}

// lease is nil where nobody works on the App.
func (d *DataSource) lease(ctx context.Context, name string) (*leaseModel, error) {
	held, err := d.connection.Engine.Tenure(ctx, name)
	if held == nil {
		return nil, err
	}
	return &leaseModel{outcome.Text(held.Holder), types.Int64Value(held.Term), instant(held.Acquired), instant(held.Expires)}, nil
}

// instant is null where it isn't known.
func instant(t time.Time) types.String {
	if t.IsZero() {
		return types.StringNull()
	}
	return types.StringValue(t.UTC().Format(time.RFC3339))
}
