package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// view is the cluster as Patroni shows it (GET /cluster).
type view struct {
	Members   []member   `json:"members"`
	Paused    bool       `json:"pause"`
	Scheduled *scheduled `json:"scheduled_switchover"`
}

type scheduled struct {
	At   string `json:"at"`
	From string `json:"from"`
	To   string `json:"to"`
}

// member is one server of a cluster. Its name is that of its instance.
type member struct {
	Name           string          `json:"name"`
	Role           string          `json:"role"` // leader, standby_leader, sync_standby, quorum_standby, replica
	State          string          `json:"state"`
	Host           string          `json:"host"` // address that it serves at
	Timeline       int64           `json:"timeline"`
	Lag            lag             `json:"lag"`
	PendingRestart json.RawMessage `json:"pending_restart"`
}

// lag is how much of the leader's log a replica has yet to get, as Patroni noted it last.
type lag struct {
	known bool
	bytes int64
}

// UnmarshalJSON reads a number of bytes. Patroni writes the text "unknown" where it does not know.
func (l *lag) UnmarshalJSON(raw []byte) error {
	*l = lag{}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil && n >= 0 {
		*l = lag{known: true, bytes: n}
	}
	return nil
}

// errNoLeader: the cluster has no leader right now.
var errNoLeader = errors.New("the cluster has no leader")

// leader returns the member that holds the leader's key.
func (v view) leader() (member, error) {
	for _, m := range v.Members {
		switch m.Role {
		case "leader":
			return m, nil
		case "standby_leader":
			return m, fmt.Errorf("%s leads a standby cluster, which follows another one: this type runs none", m.Name)
		}
	}
	return member{}, fmt.Errorf("%w: %s", errNoLeader, v)
}

func (v view) member(name string) (member, bool) {
	n := slices.IndexFunc(v.Members, func(m member) bool { return m.Name == name })
	if n < 0 {
		return member{}, false
	}
	return v.Members[n], true
}

// String lists the members, for messages.
func (v view) String() string {
	if len(v.Members) == 0 {
		return "it has no members"
	}
	var all []string
	for _, m := range v.Members {
		all = append(all, fmt.Sprintf("%s (%s, %s, timeline %d)", m.Name, m.Role, m.State, m.Timeline))
	}
	return "its members are " + strings.Join(all, ", ")
}

// synchronous tells whether a commit waits for the member.
func (m member) synchronous() bool { return m.Role == "sync_standby" || m.Role == "quorum_standby" }

// follows says why a replica does not follow the leader, as Patroni shows it, or nil. Patroni 3 calls one that streams
// "running", as it does one that does not: only the leader can tell these apart.
func (m member) follows(leader member) error {
	switch {
	case m.State != "streaming" && m.State != "running":
		return fmt.Errorf("%s is no running replica: its state is %q", m.Name, m.State)
	case m.Timeline != leader.Timeline:
		return fmt.Errorf("%s is on timeline %d, and the leader %s on %d", m.Name, m.Timeline, leader.Name, leader.Timeline)
	case !m.Lag.known:
		return fmt.Errorf("how far %s is behind the leader %s is not known", m.Name, leader.Name)
	}
	return nil
}

// status is one server as its own Patroni shows it (GET /patroni).
type status struct {
	State string `json:"state"`
	Role  string `json:"role"` // replica; of a writer master until Patroni 3, primary since 4
	Xlog  struct {
		Location int64 `json:"location"`          // of a writer
		Replayed int64 `json:"replayed_location"` // of a replica
		Paused   bool  `json:"paused"`
	} `json:"xlog"`
	Replication []struct {
		Name  string `json:"application_name"`
		State string `json:"state"`
	} `json:"replication"`
	PendingRestart bool `json:"pending_restart"`
}

// writer tells whether the server takes writes.
func (s status) writer() bool {
	return s.State == "running" && (s.Role == "master" || s.Role == "primary")
}

// streamsTo says why the leader does not stream to a replica, or nil.
func (s status) streamsTo(name string) error {
	for _, r := range s.Replication {
		if r.Name == name {
			if r.State != "streaming" {
				return fmt.Errorf("the leader's stream to %s is in the state %q", name, r.State)
			}
			return nil
		}
	}
	return fmt.Errorf("the leader streams nothing to %s: its receiver is stopped", name)
}
