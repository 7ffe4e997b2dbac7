package member

import (
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// What the status of a member says. A plan wants Running; the others are what a refresh finds, so that whatever an
// apply would mend is seen as a difference.
const (
	Running     = "running"
	Stopped     = "stopped"
	Missing     = "missing"
	Drifted     = "drifted"
	Unfinished  = "unfinished"
	Candidate   = "candidate"
	Unreachable = "unreachable"
)

// statusOf says how a member is. nodes are the statuses of a cluster's nodes.
func statusOf(m *rollout.Member, nodes map[string]string, want rollout.Rendered, wished bool) string {
	if m.Active == nil {
		return Candidate
	}
	switch node := nodes[m.Active.Node]; {
	case m.Active.Unreachable:
		return Unreachable
	case node != "" && node != fleet.StatusOnline:
		return node
	case !m.Active.Running:
		return Stopped
	case len(m.Active.Drift) > 0, len(m.Active.Stale) > 0, wished && (m.Active.Tags.Spec != want.Cold || m.Active.Tags.Hot != want.Hot):
		return Drifted
	case m.Candidate != nil || len(m.Retired) > 0:
		return Unfinished
	}
	return Running
}
