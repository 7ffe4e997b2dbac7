package rollout

import (
	"errors"
	"fmt"
	"time"
)

// A lease runs out by the clock of the server, and a cluster has as many clocks as members. Where they differ, a lease that is
// renewed through one member has run out by the clock of another. So one that has run out only lately is watched for as long as
// its holder may take to renew it, before it is taken: a dead holder renews nothing.

// errWatched is that a lease has run out, and that it is not sure yet that nobody renews it.
var errWatched = errors.New("it is watched")

// clocksApart is by how much the clocks of a cluster's members may differ: a lease that ran out longer ago is not watched.
const clocksApart = 10 * time.Minute

// watched is a term that somebody else held, and since when it has been seen as it is.
type watched struct {
	record
	since time.Time // by our clock
}

// look takes what is seen of the last term, at an instant of the server's clock and one of ours. It returns nil where nobody
// holds the App, an ErrBusy where somebody does, and errWatched where that can't be told yet.
func (w *watched) look(last record, server, now time.Time, life time.Duration) error {
	renewed := w.Term > 0 && w.Term == last.Term && !last.Released && !w.Expires.Equal(last.Expires)
	if w.record != last {
		w.record, w.since = last, now
	}
	switch {
	case last.live(server), renewed:
		return ErrBusy
	case last.Term == 0, last.Released, server.Sub(last.Expires) > clocksApart:
		return nil
	case now.Sub(w.since) < life/3+leaseMargin:
		return errWatched
	}
	return nil
}

// renewedAlthough is the error of a run that saw a lease renewed which has run out by the clock of its server.
func renewedAlthough(name string, held holding) *Failure {
	return &Failure{
		Kind: ErrBusy, App: name, Doing: "take the lease",
		Cause: fmt.Errorf("%s works on it, and has just renewed its lease until %s, although the clock of this server says %s: the clocks of the cluster's members, or of its servers, differ",
			held.Holder, held.Expires.UTC().Format(time.RFC3339), held.now.UTC().Format(time.RFC3339)),
		Now:    []string{"Nothing was changed."},
		Advice: "Set the clocks (chrony, systemd-timesyncd), wait for that run to end, and run this again.",
	}
}
