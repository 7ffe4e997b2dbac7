package etcd

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// answer is what an instance's etcd says of itself.
type answer struct {
	member  uint64
	cluster uint64
	leader  uint64 // 0 for none
	applied uint64 // index of the last entry of raft's log that is in the database
	learner bool
	alarms  []string // NOSPACE, CORRUPT, and whatever else it calls an error
}

// instance is one of the App's instances, with what it answered.
type instance struct {
	renderer.Peer
	answer *answer // nil where there was none
	err    error   // why not
}

// member is one entry in the cluster's own list.
type member struct {
	id      uint64
	name    string // empty until it has started for the first time
	peers   []string
	clients []string
	learner bool
	of      *instance // nil where the App has no instance of it
}

// view is a cluster at one moment: its own list of members, and the App's instances. What is to be done is decided from it
// alone.
type view struct {
	cluster   uint64
	leader    uint64 // 0 where no instance knows one
	members   []member
	instances []*instance
}

// newView finds out which cluster the instances are in and who leads it. Members come later, since the leader is asked for
// them.
func newView(instances []*instance) view {
	v := view{instances: instances}
	weight, follow := map[uint64]int{}, map[uint64]int{}
	for _, i := range instances {
		if i.answer == nil {
			continue
		}
		// Promoted instances say which cluster is the App's.
		weight[i.answer.cluster]++
		if i.Active {
			weight[i.answer.cluster] += len(instances)
		}
	}
	v.cluster = heaviest(weight)
	for _, i := range instances {
		switch {
		case i.answer == nil:
		case i.answer.cluster != v.cluster:
			i.err = fmt.Errorf("it is in another cluster (%x) than the others (%x)", i.answer.cluster, v.cluster)
			i.answer = nil
		case i.answer.leader != 0:
			follow[i.answer.leader]++
		}
	}
	v.leader = heaviest(follow)
	return v
}

// heaviest returns the key of the largest value, of several the smallest key, and 0 where there is none.
func heaviest(weight map[uint64]int) uint64 {
	var best uint64
	for key, w := range weight {
		if best == 0 || w > weight[best] || w == weight[best] && key < best {
			best = key
		}
	}
	return best
}

// pair finds the instance of each member: by what the instance answers, else by the name, else (of one that has never started)
// by the address.
func (v *view) pair(members []member) {
	v.members = members
	taken := map[*instance]bool{}
	match := func(is func(m member, i *instance) bool) {
		for n := range v.members {
			for _, i := range v.instances {
				if v.members[n].of == nil && !taken[i] && is(v.members[n], i) {
					v.members[n].of, taken[i] = i, true
				}
			}
		}
	}
	match(func(m member, i *instance) bool { return i.answer != nil && i.answer.member == m.id })
	match(func(m member, i *instance) bool { return m.name == i.Instance })
	match(func(m member, i *instance) bool { return m.name == "" && i.answer == nil && at(m.peers, i.Addresses) })
	slices.SortFunc(v.members, func(a, b member) int { return cmp.Compare(a.label(), b.label()) })
}

// at tells whether one of the URLs is at one of the addresses.
func at(urls, addresses []string) bool {
	return slices.ContainsFunc(urls, func(url string) bool { return slices.Contains(addresses, hostOf(url)) })
}

// label names a member in messages.
func (m member) label() string {
	switch {
	case m.of != nil:
		return m.of.Instance
	case m.name != "":
		return m.name
	}
	return fmt.Sprintf("%x at %s", m.id, strings.Join(m.peers, ","))
}

// find returns the member that is an instance, nil where it is none.
func (v view) find(name string) *member {
	for n := range v.members {
		if i := v.members[n].of; i != nil && i.Instance == name {
			return &v.members[n]
		}
	}
	return nil
}

func (v view) voters() []member {
	return slices.DeleteFunc(slices.Clone(v.members), func(m member) bool { return m.learner })
}

func (v view) learners() []member {
	return slices.DeleteFunc(slices.Clone(v.members), func(m member) bool { return !m.learner })
}

// ill says why a member is not healthy, "" where it is. Where there is no leader at all, that is not any member's fault.
func (v view) ill(m member) string {
	i := m.of
	switch {
	case i == nil:
		return "has no instance"
	case !i.Running:
		return "doesn't run, or its node can't be reached"
	case i.answer == nil:
		return i.err.Error()
	case i.answer.leader == 0 && v.leader != 0:
		return "knows no leader"
	case i.answer.leader != v.leader:
		return "follows another leader than the others"
	}
	return ""
}

// healthy counts the voters that are.
func (v view) healthy() int {
	n := 0
	for _, m := range v.voters() {
		if v.ill(m) == "" {
			n++
		}
	}
	return n
}

// sum says how the voters are: the beginning of every refusal.
func (v view) sum() string {
	var ill []string
	for _, m := range v.voters() {
		if why := v.ill(m); why != "" {
			ill = append(ill, m.label()+" "+why)
		}
	}
	text := fmt.Sprintf("%s, %d healthy, quorum %d", count(len(v.voters()), "voter"), v.healthy(), quorum(len(v.voters())))
	if len(ill) > 0 {
		text += " (" + strings.Join(ill, "; ") + ")"
	}
	return text
}

// silent says why no instance tells of the cluster.
func (v view) silent() string {
	var all []string
	for _, i := range v.instances {
		switch {
		case i.err != nil:
			all = append(all, i.Instance+" "+i.err.Error())
		case i.answer.learner:
			all = append(all, i.Instance+" is a learner")
		}
	}
	return strings.Join(all, "; ")
}

// generation ends the names of instances.
var generation = regexp.MustCompile(`-g[0-9]+$`)

// ours tells whether a member may be an instance of the App that is gone, by its name. One that has never started has
// none, no vote and no data: only the App's own runs add such, so that it is taken for a leftover.
func ours(app string, m member) bool {
	if m.name == "" {
		return m.learner
	}
	return m.of != nil || strings.HasPrefix(m.name, app+"-") && generation.MatchString(m.name)
}
