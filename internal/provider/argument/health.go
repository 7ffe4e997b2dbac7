package argument

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// How often and how long is looked where the user says nothing else.
const (
	defaultInterval = 2 * time.Second
	defaultTimeout  = 5 * time.Second
)

type healthModel struct {
	HTTP     types.Object `tfsdk:"http"`
	TCP      types.Object `tfsdk:"tcp"`
	Exec     types.Object `tfsdk:"exec"`
	Interval types.String `tfsdk:"interval"`
	Timeout  types.String `tfsdk:"timeout"`
}

type httpModel struct {
	Port   types.Int64  `tfsdk:"port"`
	Path   types.String `tfsdk:"path"`
	Host   types.String `tfsdk:"host"`
	Status types.List   `tfsdk:"status"`
}

type tcpModel struct {
	Port types.Int64 `tfsdk:"port"`
}

type execModel struct {
	Command types.List `tfsdk:"command"`
}

// HealthAttribute is the argument health. otherwise says what holds without a probe.
func HealthAttribute(otherwise string) schema.Attribute {
	port := func() schema.Attribute {
		return schema.Int64Attribute{Required: true, MarkdownDescription: "Port of the instance.", Validators: []validator.Int64{int64validator.Between(1, 65535)}}
	}
	return schema.SingleNestedAttribute{
		Optional:            true,
		MarkdownDescription: "When an instance is healthy. At most one of `http`, `tcp` and `exec`; without one " + otherwise + ".",
		Attributes: map[string]schema.Attribute{
			"http": schema.SingleNestedAttribute{
				Optional: true, MarkdownDescription: "Healthy when a GET answers with one of the wanted statuses.",
				Attributes: map[string]schema.Attribute{
					"port":   port(),
					"path":   schema.StringAttribute{Optional: true, MarkdownDescription: "Path. Default: `/`."},
					"host":   schema.StringAttribute{Optional: true, MarkdownDescription: "Host header. Default: the instance's address."},
					"status": schema.ListAttribute{Optional: true, ElementType: types.Int64Type, MarkdownDescription: "Wanted statuses. Default: any from 200 to 399.", Validators: []validator.List{listvalidator.SizeAtLeast(1)}},
				},
			},
			"tcp": schema.SingleNestedAttribute{
				Optional: true, MarkdownDescription: "Healthy when the port accepts a connection.",
				Attributes: map[string]schema.Attribute{"port": port()},
			},
			"exec": schema.SingleNestedAttribute{
				Optional: true, MarkdownDescription: "Healthy when the command exits with 0 inside the instance.",
				Attributes: map[string]schema.Attribute{
					"command": schema.ListAttribute{Required: true, ElementType: types.StringType, MarkdownDescription: "Program and arguments. No shell is in between."},
				},
			},
			"interval": schema.StringAttribute{Optional: true, MarkdownDescription: "Time between two looks. Default: `2s`.", Validators: []validator.String{durationText{above: true}}},
			"timeout":  schema.StringAttribute{Optional: true, MarkdownDescription: "Time that one look may take. Default: `5s`.", Validators: []validator.String{durationText{above: true}}},
		},
	}
}

// Health reads the argument health: the user's own probe, nil for the type's, and how often to look.
func (r *Reader) Health(ctx context.Context, object types.Object) (*renderer.Health, rollout.Sampling) {
	sampling := rollout.Sampling{Interval: defaultInterval, Timeout: defaultTimeout}
	at := path.Root("health")
	var block healthModel
	if !r.Given("health", object) || !r.Fields(ctx, at, object, &block) {
		return nil, sampling
	}
	sampling.Interval = r.Duration("health", block.Interval, defaultInterval)
	sampling.Timeout = r.Duration("health", block.Timeout, defaultTimeout)
	if block.HTTP.IsNull() && block.TCP.IsNull() && block.Exec.IsNull() {
		return nil, sampling // the type's own probe, at this interval
	}
	health := &renderer.Health{}
	var http httpModel
	if r.Given("health", block.HTTP) && r.Fields(ctx, at.AtName("http"), block.HTTP, &http) {
		health.HTTP = &renderer.HTTPProbe{Port: r.Number("health", http.Port), Path: r.Text("health", http.Path), Host: r.Text("health", http.Host)}
		if http.Status.IsUnknown() {
			r.NotKnown("health")
		}
		for _, status := range http.Status.Elements() {
			if n, ok := status.(types.Int64); ok {
				health.HTTP.Status = append(health.HTTP.Status, r.Number("health", n))
			}
		}
	}
	var tcp tcpModel
	if r.Given("health", block.TCP) && r.Fields(ctx, at.AtName("tcp"), block.TCP, &tcp) {
		health.TCP = &renderer.TCPProbe{Port: r.Number("health", tcp.Port)}
	}
	var exec execModel
	if r.Given("health", block.Exec) && r.Fields(ctx, at.AtName("exec"), block.Exec, &exec) {
		health.Exec = &renderer.ExecProbe{Command: r.List("health", exec.Command)}
	}
	return health, sampling
}
