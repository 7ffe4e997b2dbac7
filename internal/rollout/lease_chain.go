package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// The terms of an App's lease are profiles, since making a profile of a name is what exactly one of several callers
// succeeds in, also through different members of a cluster (a PUT with If-Match is not: see the facts in the design). The
// highest term is the holder's, and only its holder writes it.
//
// The number alone does not say whose a term is: with an App its terms go, and those of the next App of that name begin again
// at 1. A holder that has slept meanwhile would find its number, and another run's term under it.

// Profiles is what a lease needs of the server, in the project that leases are kept in.
type Profiles interface {
	// GetProfilesAt lists the profiles, with the time by the server's clock.
	GetProfilesAt(ctx context.Context) ([]incus.Profile, time.Time, error)
	GetProfile(ctx context.Context, name string) (profile *incus.Profile, etag string, err error)
	CreateProfile(ctx context.Context, profile incus.Profile) error
	UpdateProfile(ctx context.Context, name string, profile incus.Profile, etag string) error
	DeleteProfile(ctx context.Context, name string) error
}

// ProfilesOf are the profiles of a client's server, for Leases. They are reached beside all else that the client asks for: a
// request that waits for its lease has a place among those, and a lease must be renewed however busy they keep the server.
func ProfilesOf(client *incus.Client) func(project string) Profiles {
	return func(project string) Profiles { return client.Aside().UseProject(project) }
}

// record is one term.
type record struct {
	Term     int64
	Holder   string
	Acquired time.Time
	Expires  time.Time
	Released bool
}

// ours tells whether a run of ours has written it. A profile of that name may be somebody else's: nobody may take the App
// then, nor the profile away.
func (r record) ours() bool { return r.Holder != "" }

// same tells whether two are one run's term, at whatever time it was written.
func (r record) same(other record) bool { return r.Term == other.Term && r.Holder == other.Holder }

// live tells whether a term holds the App at an instant of the server's clock.
func (r record) live(now time.Time) bool { return r.Term > 0 && !r.Released && now.Before(r.Expires) }

// chain is where the terms of one App are.
type chain struct {
	profiles Profiles
	prefix   string // of their names
}

// leaseName begins the names of an App's terms: lease-<app>- in the default project, lease-<project>.<app>- in another. An
// App's name has no dot.
func leaseName(project, name string) string {
	if project == "" || project == "default" {
		return "lease-" + name + "-"
	}
	return "lease-" + project + "." + name + "-"
}

const (
	keyHolder   = app.TagPrefix + "holder"
	keyAcquired = app.TagPrefix + "acquired"
	keyExpires  = app.TagPrefix + "expires"
	keyReleased = app.TagPrefix + "released"
)

func (c chain) name(term int64) string { return c.prefix + strconv.FormatInt(term, 10) }

func (c chain) profile(r record) incus.Profile {
	return incus.Profile{
		Name: c.name(r.Term), Description: "homelabops: who may work on an App, see its configuration",
		Config: map[string]string{
			keyHolder: r.Holder, keyAcquired: r.Acquired.UTC().Format(time.RFC3339), keyExpires: r.Expires.UTC().Format(time.RFC3339),
			keyReleased: strconv.FormatBool(r.Released),
		},
	}
}

// terms are those of an App, in order.
type terms []record

func (t terms) last() record {
	if len(t) == 0 {
		return record{}
	}
	return t[len(t)-1]
}

// read lists the terms, and tells what time it is by the server's clock. A term whose times can't be read is somebody's
// edit: it is taken for one that never expires, since nobody can tell that it has.
func (c chain) read(ctx context.Context) (terms, time.Time, error) {
	profiles, now, err := c.profiles.GetProfilesAt(ctx)
	if err != nil {
		return nil, now, err
	}
	var all terms
	for _, p := range profiles {
		digits, ours := strings.CutPrefix(p.Name, c.prefix)
		term, err := strconv.ParseInt(digits, 10, 64)
		if !ours || err != nil || term < 1 || c.name(term) != p.Name { // lease-web-07 is nothing that a run has made
			continue
		}
		r := record{Term: term, Holder: p.Config[keyHolder], Released: p.Config[keyReleased] == "true"}
		r.Acquired, _ = time.Parse(time.RFC3339, p.Config[keyAcquired])
		if r.Expires, err = time.Parse(time.RFC3339, p.Config[keyExpires]); err != nil {
			r.Expires = now.AddDate(1, 0, 0)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b record) int { return int(a.Term - b.Term) })
	return all, now, nil
}

func (c chain) create(ctx context.Context, r record) error {
	return c.profiles.CreateProfile(ctx, c.profile(r))
}

// write writes a term of the run's own. An othersTerm says that it is another run's by now; what has become that since the look
// at it is told by its ETag, which the server compares.
func (c chain) write(ctx context.Context, r record) error {
	etag, err := c.own(ctx, r)
	if err != nil {
		return err
	}
	return c.profiles.UpdateProfile(ctx, c.name(r.Term), c.profile(r), etag)
}

// othersTerm is that the term of a run is another one's.
type othersTerm struct{ record }

// Error implements error.
func (o *othersTerm) Error() string {
	return fmt.Sprintf("%s has taken the App over with term %d", cmp.Or(o.Holder, "somebody"), o.Term)
}

// own looks whether a term is the run's own still, and returns the ETag that it has then.
func (c chain) own(ctx context.Context, r record) (etag string, err error) {
	there, etag, err := c.profiles.GetProfile(ctx, c.name(r.Term))
	if err != nil {
		return "", err
	}
	if is := (record{Term: r.Term, Holder: there.Config[keyHolder]}); !is.same(r) {
		return "", &othersTerm{is}
	}
	return etag, nil
}

// withdraw deletes a term that the run has made and can't keep.
func (c chain) withdraw(ctx context.Context, r record) error {
	var others *othersTerm
	_, err := c.own(ctx, r)
	if err == nil {
		err = c.profiles.DeleteProfile(ctx, c.name(r.Term))
	}
	if errors.As(err, &others) || errors.Is(err, incus.ErrNotFound) {
		return nil
	}
	return err
}

// remove deletes the terms before one, as long as the last of all is the run's own: low numbers may be another run's else.
func (c chain) remove(ctx context.Context, own record, before int64) error {
	all, _, err := c.read(ctx)
	if err != nil || !all.last().same(own) {
		return err
	}
	for _, r := range all {
		if r.Term >= before || !r.ours() {
			continue
		}
		if err := c.profiles.DeleteProfile(ctx, c.name(r.Term)); err != nil && !errors.Is(err, incus.ErrNotFound) {
			return fmt.Errorf("delete %s: %w", c.name(r.Term), err)
		}
	}
	return nil
}
