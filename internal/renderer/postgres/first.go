package postgres

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// data is what an instance found in its data directory, by the words of pg_controldata.
type data struct {
	system   string // identifier of the cluster that the data is of; empty where there is none
	timeline uint64
	led      bool   // was written by a leader: on one timeline that has everything
	position uint64 // in the log, that the data is known to have reached
}

// first returns the instance that begins a cluster: one that has been let in already, else the one with the latest data,
// or where none has any, the first.
func (r Renderer) first(ctx context.Context, c renderer.Cluster) (renderer.Peer, error) {
	peers := c.Running()
	first, best := peers[0], data{}
	for _, peer := range peers {
		i := inside{c.Machine, peer.Instance}
		found, unread := r.data(ctx, c.App, i)
		// Looked at last: data that is just being made can't be read.
		begun, err := i.read(ctx, startPath)
		switch {
		case err != nil:
			return peer, err
		case begun != "" && peer.Instance != c.Self.Instance:
			return peer, nil
		case unread != nil:
			return peer, unread
		case found.system == "":
			continue
		case best.system != "" && best.system != found.system:
			return peer, fmt.Errorf("the volumes hold data of two clusters: %s has that of system %s, %s that of %s; move aside the volumes of the one that is not wanted",
				first.Instance, best.system, peer.Instance, found.system)
		case best.system == "" || found.later(best):
			first, best = peer, found
		}
	}
	return first, nil
}

func (d data) later(than data) bool {
	if c := cmp.Compare(d.timeline, than.timeline); c != 0 {
		return c > 0
	}
	if d.led != than.led {
		return d.led
	}
	return d.position > than.position
}

// data reads what PostgreSQL notes of its data, whether it runs or not.
func (r Renderer) data(ctx context.Context, a renderer.App, i inside) (data, error) {
	const script = `if [ -e "$2/global/pg_control" ]; then LC_ALL=C exec "$1/pg_controldata" "$2"; fi`
	text, err := i.sh(ctx, "look for data of an earlier cluster", script, a.Params.String("bin_dir"), dataDir(a))
	if err != nil || text == "" {
		return data{}, err
	}
	return parseData(text)
}

func parseData(text string) (data, error) {
	words := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			words[name] = strings.TrimSpace(value)
		}
	}
	d := data{system: words["Database system identifier"]}
	state := words["Database cluster state"]
	d.led = state == "in production" || state == "shut down" || state == "shutting down" || state == "in crash recovery"
	for _, name := range []string{"Latest checkpoint location", "Minimum recovery ending location"} {
		high, low, _ := strings.Cut(words[name], "/")
		h, err := strconv.ParseUint(high, 16, 32)
		l, err2 := strconv.ParseUint(low, 16, 32)
		if err != nil || err2 != nil || d.system == "" {
			return data{}, fmt.Errorf("pg_controldata says nothing of a %s: %s", strings.ToLower(name), text)
		}
		d.position = max(d.position, h<<32|l)
	}
	for _, name := range []string{"Latest checkpoint's TimeLineID", "Min recovery ending loc's timeline"} {
		n, err := strconv.ParseUint(words[name], 10, 32)
		if err != nil {
			return data{}, fmt.Errorf("pg_controldata says nothing of a timeline: %s", text)
		}
		d.timeline = max(d.timeline, n)
	}
	return d, nil
}
