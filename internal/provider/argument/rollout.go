package argument

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// The times of a roll-out where the user says nothing else.
const (
	defaultMinHealthyTime  = 10 * time.Second
	defaultHealthyDeadline = 5 * time.Minute
	defaultSettleTime      = 5 * time.Second
	defaultDrainTimeout    = 30 * time.Second
)

type rolloutModel struct {
	MinHealthyTime  types.String `tfsdk:"min_healthy_time"`
	HealthyDeadline types.String `tfsdk:"healthy_deadline"`
	SettleTime      types.String `tfsdk:"settle_time"`
	DrainTimeout    types.String `tfsdk:"drain_timeout"`
	MaxParallel     types.Int64  `tfsdk:"max_parallel"`
	AllowDowntime   types.Bool   `tfsdk:"allow_downtime"`
}

// RolloutAttribute is the argument rollout. A resource of one instance has no members to take turns, and what speaks to it
// is not known.
func RolloutAttribute(several bool) schema.Attribute {
	attributes := map[string]schema.Attribute{
		"min_healthy_time": schema.StringAttribute{Optional: true, MarkdownDescription: "How long a new instance must be healthy without a break before it takes over. Default: `10s`.", Validators: []validator.String{durationText{}}},
		"healthy_deadline": schema.StringAttribute{Optional: true, MarkdownDescription: "How long a new instance may take to pass that gate, from its creation. Default: `5m`.", Validators: []validator.String{durationText{above: true}}},
		"settle_time":      schema.StringAttribute{Optional: true, MarkdownDescription: "How long a new instance is watched after it has taken over; a failure still goes back. Default: `5s`.", Validators: []validator.String{durationText{}}},
		"allow_downtime": schema.BoolAttribute{Optional: true, MarkdownDescription: "Permit a change that can be made only with downtime: the old instance is stopped before the new one starts, since both would hold what one instance only can have. " +
			"Without it the plan of such a change is refused, and says what it would stop. Default: `false`."},
	}
	if several {
		attributes["drain_timeout"] = schema.StringAttribute{Optional: true, MarkdownDescription: "How long open connections of an old instance may take to end before it is stopped. Default: `30s`.", Validators: []validator.String{durationText{}}}
		attributes["max_parallel"] = schema.Int64Attribute{Optional: true, MarkdownDescription: "How many members move at a time. Default: 1 for a count, all for `per-node`.", Validators: []validator.Int64{int64validator.AtLeast(1)}}
	}
	return schema.SingleNestedAttribute{Optional: true, MarkdownDescription: "How a roll-out goes.", Attributes: attributes}
}

// Rollout reads the argument rollout.
func (r *Reader) Rollout(ctx context.Context, object types.Object) rollout.Policy {
	policy := rollout.Policy{MinHealthyTime: defaultMinHealthyTime, HealthyDeadline: defaultHealthyDeadline, SettleTime: defaultSettleTime, DrainTimeout: defaultDrainTimeout}
	at := path.Root("rollout")
	if !r.Given("rollout", object) {
		return policy
	}
	block, ok := r.rolloutFields(ctx, at, object)
	if !ok {
		return policy
	}
	policy.MinHealthyTime = r.Duration("rollout", block.MinHealthyTime, defaultMinHealthyTime)
	policy.HealthyDeadline = r.Duration("rollout", block.HealthyDeadline, defaultHealthyDeadline)
	policy.SettleTime = r.Duration("rollout", block.SettleTime, defaultSettleTime)
	policy.DrainTimeout = r.Duration("rollout", block.DrainTimeout, defaultDrainTimeout)
	policy.MaxParallel = r.Number("rollout", block.MaxParallel)
	policy.AllowDowntime = r.Bool("rollout", block.AllowDowntime, false)
	if r.Known("rollout") && policy.HealthyDeadline <= policy.MinHealthyTime {
		r.Refuse(at.AtName("healthy_deadline"), "Deadline too short",
			"An instance must be healthy for %s (min_healthy_time) within %s (healthy_deadline): that can't happen. Make healthy_deadline longer.", policy.MinHealthyTime, policy.HealthyDeadline)
	}
	return policy
}

// rolloutFields takes a roll-out's fields, of which a resource of one instance has some only.
func (r *Reader) rolloutFields(ctx context.Context, at path.Path, object types.Object) (rolloutModel, bool) {
	var block rolloutModel
	if _, several := object.AttributeTypes(ctx)["max_parallel"]; several {
		return block, r.Fields(ctx, at, object, &block)
	}
	var own struct {
		MinHealthyTime  types.String `tfsdk:"min_healthy_time"`
		HealthyDeadline types.String `tfsdk:"healthy_deadline"`
		SettleTime      types.String `tfsdk:"settle_time"`
		AllowDowntime   types.Bool   `tfsdk:"allow_downtime"`
	}
	ok := r.Fields(ctx, at, object, &own)
	return rolloutModel{MinHealthyTime: own.MinHealthyTime, HealthyDeadline: own.HealthyDeadline, SettleTime: own.SettleTime, AllowDowntime: own.AllowDowntime}, ok
}
