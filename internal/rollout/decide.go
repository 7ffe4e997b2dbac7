package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/fleet"
	"github.com/homelabops/terraform-provider-homelabops/internal/version"
)

// Action is what is done to one member.
type Action string

// The actions.
const (
	Leave   Action = "leave"   // as wished
	Create  Action = "create"  // has no instance that serves
	Replace Action = "replace" // gets an instance of the next generation
	Update  Action = "update"  // configuration written in place
	Start   Action = "start"   // stopped or frozen by hand
	Remove  Action = "remove"  // not wished any more
	Skip    Action = "skip"    // its node is away
)

// Move is what is done to one member, and to which instances.
type Move struct {
	Member     app.Member
	Action     Action
	Instance   string // the instance that the member is afterwards
	Generation int
	Blue       *Instance   // what it is now; nil for none
	Candidate  *Instance   // left by an earlier run and made as wished: goes on from there
	Discard    []*Instance // left by an earlier run, of no more use
	Hot        bool        // Update: the hot part has changed; otherwise only what was edited by hand is mended
	Data       []DataMove  // Replace: what goes to another pool or node with it
	Anew       *Instance   // of Discard: made as wished, but nobody can tell whether with the secrets that are wished
	Kept       bool        // Candidate keeps the secrets that the earlier run gave it
	Reasons    []string
}

// Plan is what a run will do. It is a pure function of what was observed and what is wished.
type Plan struct {
	App, Type string
	Class     app.Class
	Change    version.Change
	From, To  string // versions, empty where unknown
	Strategy  Strategy
	Reason    string // for Refused: why, and the way out
	Caution   string // what to have done or to know before this change of version; empty for nothing
	Downtime  string // empty for none
	Moves     []Move
	policy    Policy
	endpoint  *Endpoint
	stable    bool
}

// Facts are what the plan needs to know beside observation and wish.
type Facts struct {
	Class       app.Class
	FromVersion string   // of the App before, empty where unknown
	New         bool     // nothing of it is in state
	Held        []string // what makes it exclusive, in words; see ClassOf
}

// Decide works out what to do.
func Decide(o Observation, w Wish, rendered map[string]Rendered, f Facts) Plan {
	p := Plan{App: w.App.Name, Type: w.App.Type, Class: f.Class, To: w.App.Version, From: f.FromVersion, Strategy: None, policy: w.Rollout, endpoint: w.Endpoint, stable: w.Stable}
	wished := map[string]bool{}
	for _, m := range w.Members() {
		wished[m.Key] = true
		p.Moves = append(p.Moves, decideMember(o, w, rendered[m.Key], f.Class))
	}
	for _, key := range slices.Backward(o.Keys()) {
		if wished[key] {
			continue
		}
		m := o.Members[key]
		away := m.Away
		if away == "" && w.Replicas.PerNode {
			away = nodeAway(o, key) // evacuated: its instance serves from another node
		}
		if away != "" {
			// A node that is away drops out of a list of online ones. That is no wish to lose its member.
			p.Moves = append(p.Moves, skip(Move{Member: app.Member{Key: key}, Blue: m.Active}, away))
			continue
		}
		p.Moves = append(p.Moves, removal(key, m))
	}
	p.classify(f, w, rendered)
	if w.Stable && p.Strategy == BlueGreen && p.hasWork(Replace) {
		p.Downtime = fmt.Sprintf("%s: from the stop of the old instance to the start of the new one under its name, after that has passed its gate under a temporary one", w.App.Name)
	}
	return p
}

// awayOf says why a member can't be worked on because of the node that it is on or must be on; empty where it can.
func awayOf(o Observation, m *Member, pinned string) string {
	if m.Away != "" || m.Active != nil {
		return m.Away
	}
	return nodeAway(o, pinned)
}

// nodeAway says how a node takes no instances; empty where it does, and where it isn't known.
func nodeAway(o Observation, node string) string {
	if status := o.Nodes[node]; status != "" && status != fleet.StatusOnline {
		return fmt.Sprintf("node %s is %s", node, status)
	}
	return ""
}

// skip leaves a member as it is.
func skip(m Move, reason string) Move {
	m.Action, m.Discard, m.Reasons = Skip, nil, []string{reason}
	if m.Blue != nil {
		m.Instance, m.Generation = m.Blue.Name, m.Blue.Tags.Generation
	}
	return m
}

// removal takes away all of a member's instances.
func removal(key string, m *Member) Move {
	move := Move{Member: app.Member{Key: key}, Action: Remove, Blue: m.Active, Discard: m.Retired, Reasons: []string{"not wished any more"}}
	if m.Candidate != nil {
		move.Discard = append(slices.Clone(move.Discard), m.Candidate)
	}
	return move
}

func decideMember(o Observation, w Wish, want Rendered, class app.Class) Move {
	key := want.Member.Key
	move := Move{Member: want.Member, Action: Leave}
	m := o.Members[key]
	if m == nil {
		m = &Member{}
	}
	move.Blue = m.Active
	move.Discard = slices.Clone(m.Retired)
	known, isKnown := w.Known[key]
	if away := awayOf(o, m, want.Member.Node); away != "" {
		move.Generation = known
		move.Instance = w.instanceName(key, known)
		return skip(move, away)
	}
	switch {
	case m.Active == nil:
		move.Action = Create
		if isKnown {
			move.Generation = known + 1
			move.Reasons = append(move.Reasons, "its instance is gone")
		}
	case m.Active.Tags.Spec != want.Cold || relocates(w, want.Member.Node, m.Active):
		if away := nodeAway(o, want.Member.Node); away != "" {
			return skip(move, away)
		}
		move.Action = Replace
		move.Generation = m.Active.Tags.Generation + 1
		move.Reasons = append(move.Reasons, "image, version or configuration changed")
		if m.Active.Tags.Spec == want.Cold {
			move.Reasons = []string{"is to be on node " + want.Member.Node}
		}
		if class == app.ExclusiveHolder {
			move.Data = dataMoves(o, w, move)
		}
	default:
		move.Instance, move.Generation = m.Active.Name, m.Active.Tags.Generation
		if m.Active.Tags.Hot != want.Hot {
			move.Action, move.Hot = Update, true
			move.Reasons = append(move.Reasons, "description, limits or reloadable configuration changed")
		}
		if w.App.Version != "" && m.Active.Tags.Version != w.App.Version {
			move.Action = Update
			move.Reasons = append(move.Reasons, "version is written down")
		}
		if len(m.Active.Drift) > 0 {
			move.Action = Update
			move.Reasons = append(move.Reasons, "changed by hand: "+strings.Join(m.Active.Drift, ", "))
			move.Hot = move.Hot || slices.Contains(m.Active.Drift, app.KeyBinding)
		}
		if len(m.Active.Stale) > 0 {
			move.Action, move.Hot = Update, true
			move.Reasons = append(move.Reasons, m.Active.stale())
		}
		if !m.Active.Running {
			move.Action = Start
			move.Hot = move.Hot || len(m.Active.Drift) > 0
			move.Reasons = append(move.Reasons, "not running")
		}
		if w.Stable && m.Active.Name != w.App.Name {
			move.Action, move.Instance = Start, w.App.Name
			move.Reasons = append(move.Reasons, "is called "+m.Active.Name+", as an earlier run left it")
		}
		if m.Candidate != nil {
			move.Discard = append(move.Discard, m.Candidate)
		}
		return move
	}
	switch c := m.Candidate; {
	case c == nil:
	case c.madeAs(w, want) && c.Tags.Generation >= move.Generation && o.allows(w, want.Member.Node, c.Node) && holdsData(move):
		if want.Spec.Secrets != "" && class.Atomic() && len(w.App.Volumes) == 0 {
			move.Anew, move.Discard = c, append(move.Discard, c)
			move.Reasons = append(move.Reasons, "candidate "+c.Name+" of an earlier run may have other secrets")
			break
		}
		move.Kept = want.Spec.Secrets != "" // as the cluster that it has joined has them, or on data that it may have written
		move.Candidate, move.Generation = c, c.Tags.Generation
		move.Reasons = append(move.Reasons, "goes on with candidate "+c.Name+" of an earlier run")
	default:
		move.Discard = append(move.Discard, c)
	}
	move.Instance = w.instanceName(key, move.Generation)
	if move.Candidate != nil && !w.Stable {
		move.Instance = move.Candidate.Name
	}
	return move
}

// relocates tells whether a member has to go to another node for no other reason than that it was pinned there.
func relocates(w Wish, pinned string, blue *Instance) bool {
	return w.Relocate && pinned != "" && blue.Node != pinned
}

// madeAs tells whether a candidate of an earlier run is all that is wished, also what could be changed in place: nothing is
// written to a candidate but its way to promotion, and one that would be promoted first and mended by the next run is not
// what this run was to make. One that does not run may lack anything, up to its root disk: that run may have been cut short
// while it was made, or the server while it made it.
func (i *Instance) madeAs(w Wish, want Rendered) bool {
	return i.Running && i.Tags.Spec == want.Cold && i.Tags.Hot == want.Hot && (w.App.Version == "" || i.Tags.Version == w.App.Version) && len(i.Drift) == 0
}

// holdsData tells whether a candidate of an earlier run, which runs, has all the data that moves with it. It was started on
// a copy that was whole; what blue wrote after it was started again by hand would not be in that.
func holdsData(m Move) bool { return len(m.Data) == 0 || m.Blue.Marked }

// classify names the change of version and the strategy of the whole.
func (p *Plan) classify(f Facts, w Wish, rendered map[string]Rendered) {
	p.Change = version.Same
	replaces, creates, hot := 0, 0, 0
	for _, m := range p.Moves {
		switch m.Action {
		case Replace:
			replaces++
		case Create:
			creates++
		case Update, Start:
			hot++
		}
	}
	if f.New {
		p.From = ""
	}
	switch {
	case replaces > 0:
		p.From = p.from(p.From)
		p.Change, _ = version.Classify(p.Type, p.From, p.To)
		p.Strategy, p.Reason = strategyOf(p.Class, p.Type, p.From, p.To)
		p.Caution = version.CheckStep(p.Type, p.From, p.To).Caution
		if why := p.twoChanges(w, rendered); why != "" && p.Strategy != Refused {
			p.Strategy, p.Reason = Refused, why
		}
		if p.Strategy == InPlace {
			p.inPlace(f.Held)
		}
	case creates > 0:
		p.Strategy = creation(p.Class, f.New)
	case hot > 0 || !p.Empty():
		p.Strategy = Hot
		p.backToSnapshots()
	}
}

// creation is how members are added. The first ones of an App meet nobody, whatever its class.
func creation(class app.Class, fresh bool) Strategy {
	switch {
	case class == app.ExclusiveHolder:
		return InPlace
	case class == app.QuorumMember && !fresh:
		return Quorum
	}
	return BlueGreen
}

// backToSnapshots says of an update in place that an earlier run left, and that is not wished any more, what going back
// costs.
func (p *Plan) backToSnapshots() {
	var names []string
	for _, m := range p.Moves {
		if m.Action == Start && m.Blue != nil && m.Blue.Marked {
			names = append(names, m.Blue.Name)
		}
	}
	if len(names) > 0 {
		p.Strategy = InPlace
		p.Downtime = fmt.Sprintf("%s: its successor is removed, its volumes are put back to what they held when it was stopped, and it is started again; what the successor wrote since is lost", joined(names))
	}
}

// inPlace says what an update in place costs, and refuses it where that was not allowed.
func (p *Plan) inPlace(held []string) {
	why := "its data and resources can have one holder only"
	if len(held) > 0 {
		why = "one instance only can hold " + strings.Join(held, ", ")
	}
	p.Downtime = fmt.Sprintf("%s: stopped before the successor starts, since %s; down until that is healthy, at most %s, and then back on what ran before",
		stopsWhat(*p), why, short(p.policy.HealthyDeadline))
	moves := ""
	if data := p.Data(); len(data) > 0 {
		p.Downtime += fmt.Sprintf(". It moves %s: copied while nothing runs on it, for which it is down as well", dataText(data))
		moves = fmt.Sprintf(" and move %s", dataText(data))
	}
	if !p.policy.AllowDowntime {
		p.Strategy = Refused
		p.Reason = fmt.Sprintf("it would stop %s%s, since %s: it can only be updated in place, which needs rollout.allow_downtime = true", stopsWhat(*p), moves, why)
	}
}

// Empty tells whether nothing is to be done to any instance.
func (p Plan) Empty() bool {
	return !slices.ContainsFunc(p.Moves, func(m Move) bool {
		return m.Action != Leave && m.Action != Skip || len(m.Discard) > 0
	})
}

// replacesServing tells whether an instance that has been promoted goes: one that somebody may use.
func (p Plan) replacesServing() bool {
	return slices.ContainsFunc(p.Moves, func(m Move) bool { return m.Blue != nil && (m.Action == Replace || m.Action == Remove) })
}

// Instances returns the instance that each member is afterwards.
func (p Plan) Instances() map[string]string {
	all := map[string]string{}
	for _, m := range p.Moves {
		if m.Action != Remove {
			all[m.Member.Key] = m.Instance
		}
	}
	return all
}

// Steps returns what will be done, a sentence each, in order.
func (p Plan) Steps() []string {
	var steps, last []string
	gate := fmt.Sprintf("healthy for %s, at most %s", short(p.policy.MinHealthyTime), short(p.policy.HealthyDeadline))
	for _, m := range p.Moves {
		for _, d := range m.Discard {
			if d == m.Anew {
				steps = append(steps, fmt.Sprintf("remove %s, which an earlier run left: it may have other secrets", d.Name))
				continue
			}
			last = append(last, d.Name)
		}
		if m.Kept {
			steps = append(steps, fmt.Sprintf("leave %s the secrets that an earlier run gave it: raise secrets_wo_version if they have changed since", m.Candidate.Name))
		}
		switch m.Action {
		case Create:
			if p.Class.Peers() {
				steps = append(steps, fmt.Sprintf("%s %s, let it join, gate it (%s), promote it", verb(m), m.Instance, gate))
				continue
			}
			steps = append(steps, fmt.Sprintf("%s %s, gate it (%s), promote it", verb(m), m.Instance, gate))
		case Replace:
			old := "nothing"
			if m.Blue != nil {
				old = m.Blue.Name
				last = append(last, old)
			}
			if p.Class == app.ExclusiveHolder {
				volumes, gone := "its volumes", old
				if len(m.Data) > 0 {
					volumes, gone = fmt.Sprintf("its volumes that stay, copy %s, verify the copy", dataText(m.Data)), old+", what its data was copied from"
				}
				steps = append(steps, fmt.Sprintf("stop %s, take a snapshot of %s, start %s on them, gate it (%s), promote it, watch it for %s, delete %s and the snapshots",
					old, volumes, m.Instance, gate, short(p.policy.SettleTime), gone))
				last = slices.DeleteFunc(last, func(name string) bool { return name == old })
				continue
			}
			if p.Class.Peers() {
				steps = append(steps, fmt.Sprintf("%s %s beside %s, let it join, gate it (%s), hand over to it, watch it for %s, let %s leave and delete it",
					verb(m), m.Instance, old, gate, short(p.policy.SettleTime), old))
				last = slices.DeleteFunc(last, func(name string) bool { return name == old })
				continue
			}
			if p.stable {
				steps = append(steps, fmt.Sprintf("%s %s beside %s, gate it (%s), stop both, rename, start it as %s, watch it for %s",
					verb(m), temporaryName(m.Instance, m.Generation), old, gate, m.Instance, short(p.policy.SettleTime)))
				last = append(slices.DeleteFunc(last, func(name string) bool { return name == old }), "the old one")
				continue
			}
			steps = append(steps, fmt.Sprintf("%s %s beside %s, gate it (%s), promote it, watch it for %s, drain and stop %s",
				verb(m), m.Instance, old, gate, short(p.policy.SettleTime), old))
		case Update:
			steps = append(steps, fmt.Sprintf("update %s in place", m.Instance))
		case Start:
			if m.Blue != nil && m.Blue.Marked {
				steps = append(steps, fmt.Sprintf("put the volumes of %s back to what they held when it was stopped, start %s, gate it (%s); what was written to them since is lost", m.Blue.Name, m.Instance, gate))
				continue
			}
			steps = append(steps, fmt.Sprintf("start %s, gate it (%s)", m.Instance, gate))
		case Remove:
			if m.Blue != nil {
				last = append(last, m.Blue.Name)
				verb := "drain and stop"
				if p.Class.Peers() {
					verb = "hand over what it leads, drain and let leave"
				}
				steps = append(steps, fmt.Sprintf("%s %s", verb, m.Blue.Name))
			}
		}
	}
	if p.Class.Peers() && p.hasWork(Replace) {
		steps = append([]string{"one member at a time, the leader last"}, steps...)
	}
	if len(last) > 0 {
		steps = append(steps, "delete "+strings.Join(last, ", "))
	}
	return steps
}

func verb(m Move) string {
	if m.Candidate != nil {
		return "go on with"
	}
	return "create"
}

// short writes a duration as a user would: "10s", not "10.000s"; "5m", not "5m0s".
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
