package member

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
)

// Model is one entry of members.
type Model struct {
	Instance   types.String `tfsdk:"instance"`
	Node       types.String `tfsdk:"node"`
	Generation types.Int64  `tfsdk:"generation"`
	Version    types.String `tfsdk:"version"`
	IPv4       types.String `tfsdk:"ipv4"`
	IPv6       types.String `tfsdk:"ipv6"`
	Status     types.String `tfsdk:"status"`
}

// Type is the type of an entry.
var Type = types.ObjectType{AttrTypes: map[string]attr.Type{
	"instance": types.StringType, "node": types.StringType, "generation": types.Int64Type, "version": types.StringType,
	"ipv4": types.StringType, "ipv6": types.StringType, "status": types.StringType,
}}

// Read reads the entries of members; nil where they are not known.
func Read(ctx context.Context, members types.Map) map[string]Model {
	if members.IsNull() || members.IsUnknown() {
		return nil
	}
	all := map[string]Model{}
	for key, value := range members.Elements() {
		object, ok := value.(types.Object)
		if !ok || object.IsNull() || object.IsUnknown() {
			continue
		}
		var one Model
		if object.As(ctx, &one, basetypes.ObjectAsOptions{UnhandledNullAsEmpty: true, UnhandledUnknownAsEmpty: true}).HasError() {
			continue // can't be: the schema has this very type
		}
		all[key] = one
	}
	return all
}

// Value is members as an attribute.
func Value(ctx context.Context, all map[string]Model) types.Map {
	value, diags := types.MapValueFrom(ctx, Type, all)
	if diags.HasError() {
		return types.MapUnknown(Type)
	}
	return value
}

// Generations are the generations that state knows of, for the engine. A candidate that was never promoted is not
// counted: a run goes on with it.
func Generations(members map[string]Model) map[string]int {
	all := map[string]int{}
	for key, one := range members {
		if one.Status.ValueString() != Candidate && !one.Generation.IsNull() && !one.Generation.IsUnknown() {
			all[key] = int(one.Generation.ValueInt64())
		}
	}
	return all
}

// Expected are the instances that a plan named.
func Expected(members map[string]Model) map[string]string {
	all := map[string]string{}
	for key, one := range members {
		if name := one.Instance.ValueString(); name != "" {
			all[key] = name
		}
	}
	return all
}
