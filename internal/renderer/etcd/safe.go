package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// ErrUnsafe is that a step could cost the cluster its quorum, or that nobody can tell.
var ErrUnsafe = errors.New("the step is not safe")

// safe says why a step is not, from the worst that may come of it: a new member may fail as soon as it has a vote. self is
// the instance that the step is about, or only its member.
func (v view) safe(a renderer.App, step renderer.ClusterStep, self renderer.Peer) error {
	if err := v.led(); err != nil {
		return err
	}
	if step == renderer.StepRemove {
		if err := v.complete(a, self, nil); err != nil {
			return err
		}
		if m := v.find(self.Instance); m != nil {
			return v.bearsLoss(*m)
		}
		return nil
	}
	dead := v.dead(a, step, self)
	if err := v.complete(a, self, dead); err != nil {
		return err
	}
	if err := v.sameLanguage(a); err != nil {
		return err
	}
	for _, m := range v.learners() {
		if m.of != nil && m.of.Member != self.Member {
			return fmt.Errorf("%s is a learner, and etcd bears one at a time: bring the move of member %q to its end first", m.label(), m.of.Member)
		}
	}
	return v.bearsMore(dead)
}

// led says why the cluster can't agree on anything now.
func (v view) led() error {
	switch voters := len(v.voters()); {
	case v.leader == 0:
		return fmt.Errorf("the cluster has no leader: %s. No step is possible until more of them answer", v.sum())
	case v.healthy() < quorum(voters):
		return fmt.Errorf("the cluster has no quorum: %s. No step is possible until more of them answer", v.sum())
	}
	return v.alarmed()
}

// alarmed says which alarms the cluster has raised. Every member tells of those of all.
func (v view) alarmed() error {
	for _, i := range v.instances {
		if i.answer != nil {
			if err := alarmed(i.answer.alarms); err != nil {
				return err
			}
		}
	}
	return nil
}

// alarmed says what alarms mean, and what ends them.
func alarmed(alarms []string) error {
	for _, text := range alarms {
		switch {
		case strings.Contains(text, "NOSPACE"):
			return fmt.Errorf("the cluster has raised the alarm NOSPACE, and refuses writes: the database of a member has reached quota_backend_bytes. "+
				"Make room with etcdctl compact and defrag, then end it with etcdctl alarm disarm (%s)", strings.TrimSpace(text))
		case strings.Contains(text, "CORRUPT"):
			return fmt.Errorf("the cluster has raised the alarm CORRUPT: a member's data differs from that of the others. "+
				"Take that member out, and end it with etcdctl alarm disarm (%s)", strings.TrimSpace(text))
		}
	}
	if len(alarms) > 0 {
		return fmt.Errorf("etcd reports: %s", strings.Join(alarms, "; "))
	}
	return nil
}

// dead returns the members that are taken out before another one is added: for a repair those whose instance is gone, and
// for any new instance of a member that member's own one where it is dead, since etcd adds none while one can't be reached.
func (v view) dead(a renderer.App, step renderer.ClusterStep, self renderer.Peer) []member {
	var dead []member
	for _, m := range v.voters() {
		gone := m.of == nil && ours(a.Name, m) && step == renderer.StepRepair
		own := m.of != nil && m.of.Member == self.Member && v.ill(m) != ""
		if gone || own && step != renderer.StepAdd {
			dead = append(dead, m)
		}
	}
	return dead
}

// complete says where the cluster's members and the App's instances are not the same: then nobody can tell what a step
// does. Those that are about to be taken out don't count, nor does the member that the step is about.
func (v view) complete(a renderer.App, self renderer.Peer, except []member) error {
	var extra, lost, repair []string
	for _, m := range v.members {
		if m.of != nil || m.learner && ours(a.Name, m) || slices.ContainsFunc(except, func(e member) bool { return e.id == m.id }) {
			continue
		}
		extra = append(extra, m.label())
		repair = append(repair, fmt.Sprintf("etcdctl member remove %x", m.id))
	}
	for _, i := range v.instances {
		if i.Active && i.Member != self.Member && v.find(i.Instance) == nil {
			lost = append(lost, i.Instance)
		}
	}
	if len(extra)+len(lost) == 0 {
		return nil
	}
	var names []string
	for _, m := range v.members {
		names = append(names, m.label())
	}
	var instances []string
	for _, i := range v.instances {
		instances = append(instances, i.Instance)
	}
	text := fmt.Sprintf("cluster and App differ: the cluster has %s (%s), the App %s (%s)", count(len(names), "member"), strings.Join(names, ", "), count(len(instances), "instance"), strings.Join(instances, ", "))
	if len(extra) > 0 {
		text += fmt.Sprintf("; %s no instance of the App: where it is not to come back, take it out with %s", isAre(extra), strings.Join(repair, " and "))
	}
	if len(lost) > 0 {
		text += fmt.Sprintf("; %s not in the cluster: delete the instance, and the next apply replaces it", isAre(lost))
	}
	return final{errors.New(text)}
}

// isAre says who: "a is", "a, b are".
func isAre(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, ", ") + " are"
}

// sameLanguage refuses a new member that the others couldn't speak with.
func (v view) sameLanguage(a renderer.App) error {
	want, _, _ := strings.Cut(peerURL(a, "0.0.0.0"), ":")
	for _, m := range v.members {
		for _, url := range m.peers {
			if have, _, _ := strings.Cut(url, ":"); have != want {
				return final{fmt.Errorf("the members speak %s with each other (%s is at %s), and the App's tls would have the new one speak %s: "+
					"that can't be changed in a cluster that runs, make a new App", have, m.label(), url, want)}
			}
		}
	}
	return nil
}

// bearsLoss says why the cluster would not bear that a member goes.
func (v view) bearsLoss(m member) error {
	voters, healthy := len(v.voters()), v.healthy()
	left := healthy
	if v.ill(m) == "" {
		left--
	}
	switch {
	case v.leader == 0:
		return fmt.Errorf("%s: without a leader nothing can be taken out", v.sum())
	case healthy < quorum(voters):
		return fmt.Errorf("%s: without a quorum nothing can be taken out", v.sum())
	case !m.learner && voters == 1:
		return fmt.Errorf("%s: %s is the only one that has the data", v.sum(), m.label())
	case !m.learner && left < quorum(voters-1):
		return fmt.Errorf("%s: without %s %d of %d would be healthy, and quorum is %d", v.sum(), m.label(), left, voters-1, quorum(voters-1))
	}
	return nil
}

// bearsMore says why the cluster would not bear one voter more, once the dead ones are taken out.
func (v view) bearsMore(dead []member) error {
	voters, healthy := len(v.voters())-len(dead), v.healthy()
	with := quorum(voters + 1)
	if voters == 0 {
		return final{fmt.Errorf("%s: no voter would be left to copy the data from", v.sum())}
	}
	if healthy == voters {
		return nil
	}
	first := ""
	if len(dead) > 0 {
		first = fmt.Sprintf("; with the dead taken out %s, %d healthy", count(voters, "voter"), healthy)
	}
	return fmt.Errorf("%s%s; with one more voter quorum is %d, and if that one fails %d of %d are healthy: etcd adds none while a voter can't be reached. "+
		"Bring it back, or let it be repaired first", v.sum(), first, with, healthy, voters+1)
}

// bearsVote says why the cluster would not bear that a learner gets a vote.
func (v view) bearsVote(m member) error {
	voters, healthy := len(v.voters())+1, v.healthy()
	if why := v.ill(m); why != "" {
		return fmt.Errorf("%s %s", m.label(), why)
	}
	if healthy+1 < quorum(voters) {
		return fmt.Errorf("%s: with the vote of %s quorum is %d, and %d would be healthy", v.sum(), m.label(), quorum(voters), healthy+1)
	}
	return nil
}
