package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// DataMove is the data of one of a member's volumes that goes to another place with the member's next instance.
type DataMove struct {
	Volume string // its name within the App
	Size   string // as the App has it; empty where it leaves that open
	From   Spot
	Pool   string // to which it goes
	Where  string // on which node, in words; empty where that is no question
}

func (d DataMove) String() string {
	size := ""
	if d.Size != "" {
		size = " (at most " + d.Size + ")"
	}
	return fmt.Sprintf("the data of volume %s%s %s", d.Volume, size, d.route())
}

// route says from where to where.
func (d DataMove) route() string {
	to := "pool " + d.Pool
	if d.Where != "" {
		to += " on " + d.Where
	}
	return fmt.Sprintf("from %s to %s", d.From, to)
}

// dataMoves tells which of a member's volumes have their data elsewhere than its next instance is to have it: in another
// pool, or on a node where the member may not be any more. Volumes of all members don't move.
func dataMoves(o Observation, w Wish, m Move) []DataMove {
	var all []DataMove
	for _, v := range w.App.Volumes {
		at, mounted := m.Blue.Mounts[v.Name]
		if !mounted || v.Shared || !w.isVolume(at.Volume, m.Member.Key, v) {
			continue
		}
		leaves := at.Local && !o.allows(w, m.Member.Node, m.Blue.Node)
		pool := cmp.Or(v.Pool, at.Pool)
		if !leaves && pool == at.Pool {
			continue
		}
		d := DataMove{Volume: v.Name, Size: v.Size, From: m.Blue.spot(v.Name), Pool: pool}
		switch {
		case !leaves:
		case m.Member.Node != "":
			d.Where = "node " + m.Member.Node
		default:
			d.Where = "a node of cluster group " + w.Group
		}
		all = append(all, d)
	}
	return all
}

// movesData tells whether the data of one of the member's volumes goes to another place.
func (m Move) movesData(volume string) bool {
	return slices.ContainsFunc(m.Data, func(d DataMove) bool { return d.Volume == volume })
}

// allows tells whether a member may be on a node of a cluster, as far as that is known.
func (o Observation) allows(w Wish, pinned, node string) bool {
	switch {
	case len(o.Nodes) == 0:
		return true
	case pinned != "":
		return pinned == node
	case w.Group != "" && o.Groups != nil:
		return slices.Contains(o.Groups[node], w.Group)
	}
	return true
}

// isVolume tells whether a name is that of one of a member's volumes, of whatever generation.
func (w Wish) isVolume(name, key string, v renderer.Volume) bool {
	own := w.volumeName(key, v)
	return name == own || strings.HasPrefix(name, own+"-g") && volumeGeneration(name) >= 0
}

// Data returns all data that goes to another place.
func (p Plan) Data() []DataMove {
	var all []DataMove
	for _, m := range p.Moves {
		all = append(all, m.Data...)
	}
	return all
}

// dataText lists data that moves, for a sentence.
func dataText(data []DataMove) string {
	var texts []string
	for _, d := range data {
		texts = append(texts, d.String())
	}
	return strings.Join(texts, ", and ")
}
