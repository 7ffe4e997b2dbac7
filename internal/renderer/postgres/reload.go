package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Reload implements renderer.Reloader: settings first, then the addresses of etcd.
func (r Renderer) Reload(ctx context.Context, machine renderer.Machine, a renderer.App, instance string, spec renderer.Spec) error {
	l := reload{r, a, inside{machine, instance}, within(a, machine, instance)}
	for _, f := range spec.Hot.Files {
		var err error
		switch f.Path {
		case hotPath:
			err = l.settings(ctx, f)
		case dcsPath:
			err = l.dcs(ctx, f)
		}
		if err != nil {
			return fmt.Errorf("reload PostgreSQL in %s: %w", instance, err)
		}
	}
	return nil
}

// reload is one run of Reload.
type reload struct {
	Renderer
	app     renderer.App
	inside  inside
	patroni patroni
}

// finishFor bounds what is brought to its end whatever becomes of the caller: a file in place that is not what runs
// would be read by the next start.
const finishFor = 3 * time.Minute

// settings changes the cluster-wide configuration, then the server's own. Where the server refuses what it gets, both are
// put back.
func (l reload) settings(ctx context.Context, f renderer.File) error {
	was, err := l.inside.read(ctx, f.Path)
	if err != nil {
		return err
	}
	is, err := l.patroni.config(ctx)
	if err != nil {
		return err
	}
	change := patch(is, clusterConfig(l.app), []string{sharedHot})
	if change == nil && was == f.Content {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishFor)
	defer cancel()
	if change != nil {
		if err := l.patroni.change(ctx, change); err != nil {
			return err
		}
	}
	if err = l.takeUp(ctx, f, sortSettings(l.app.Params.Texts("postgresql")).hot); err == nil {
		return nil
	}
	back := []error{err}
	if change != nil {
		back = append(back, l.patroni.change(ctx, undo(is, change)))
	}
	if was != "" {
		f.Content = was
		back = append(back, l.takeUp(ctx, f, settingsIn(was)))
	}
	return errors.Join(back...)
}

// undo returns the patch that takes another one back.
func undo(was, change object) object {
	back := object{}
	for key, value := range change {
		inner, nested := value.(object)
		former, _ := was[key].(object)
		if nested {
			back[key] = undo(former, inner)
		} else {
			back[key] = was[key]
		}
	}
	return back
}

// settingsIn returns the settings of a server that a file has.
func settingsIn(content string) map[string]string {
	var config struct {
		PostgreSQL struct{ Parameters map[string]string } `yaml:"postgresql"`
	}
	if yaml.Unmarshal([]byte(content), &config) != nil {
		return nil
	}
	return config.PostgreSQL.Parameters
}

// takeUp puts a file in place and waits until PostgreSQL has read what Patroni makes of it. PostgreSQL reads its
// configuration again for other reasons too, so that both are looked at: what is in its files, and when it read them.
func (l reload) takeUp(ctx context.Context, f renderer.File, want map[string]string) error {
	before, err := l.files(ctx)
	if err != nil {
		return err
	}
	if err := l.inside.write(ctx, f); err != nil {
		return err
	}
	if err := l.patroni.reload(ctx); err != nil {
		return err
	}
	patience := 2*l.app.Params.Duration("loop_wait") + steadyMargin
	for spent := time.Duration(0); spent < patience; spent += lookPause {
		now, late := l.files(ctx)
		if late != nil {
			return late
		}
		var refused bool
		if refused, err = now.judge(want); refused {
			return err
		}
		if err == nil && now.read != before.read {
			return nil
		}
		if late := l.wait(ctx, lookPause); late != nil {
			return errors.Join(err, late)
		}
	}
	if err == nil {
		err = errors.New("PostgreSQL has not read its files again")
	}
	return fmt.Errorf("after %s: %w; /var/log/patroni.log there may say why", patience, err)
}

// files are PostgreSQL's own configuration files as it sees them.
type files struct {
	read     string // when they were read last
	settings map[string]setting
}

type setting struct{ value, problem string }

func (l reload) files(ctx context.Context) (files, error) {
	text, err := l.query(ctx, "select pg_conf_load_time(); select name, coalesce(error, ''), setting from pg_file_settings order by seqno;")
	if err != nil {
		return files{}, err
	}
	read, rest, _ := strings.Cut(text, "\n")
	f := files{read, map[string]setting{}}
	for line := range strings.Lines(rest) {
		if words := strings.SplitN(strings.TrimSuffix(line, "\n"), "|", 3); len(words) == 3 {
			f.settings[strings.ToLower(words[0])] = setting{words[2], words[1]} // the last one counts
		}
	}
	return f, nil
}

// judge says which wanted settings are not in the files, or nil; refused says that those that are there are no good, so
// that waiting won't help.
func (f files) judge(want map[string]string) (refused bool, err error) {
	var why []error
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch have, ok := f.settings[name]; {
		case !ok || have.value != want[name]:
			why = append(why, fmt.Errorf("the setting %s = %q did not reach PostgreSQL: it is none that this release knows, or not a value of it", name, want[name]))
		case have.problem != "":
			refused = true
			why = append(why, fmt.Errorf("PostgreSQL refuses the setting %s = %q: %s. The value is wrong, or takes a restart, which a change in place doesn't make", name, want[name], have.problem))
		}
	}
	return refused, errors.Join(why...)
}

// query asks PostgreSQL as its superuser, by the socket that only processes of the instance reach.
func (l reload) query(ctx context.Context, sql string) (string, error) {
	psql := path.Join(l.app.Params.String("bin_dir"), "psql")
	command := fmt.Sprintf("'%s' -XAtq -F '|' -v ON_ERROR_STOP=1 -h %s -p %s -U %s -d postgres",
		strings.ReplaceAll(psql, "'", `'\''`), socketDir, strconv.Itoa(l.app.Params.Int("port")), superuser)
	return l.inside.run(ctx, "ask PostgreSQL", []string{"su", "-s", "/bin/sh", osUser, "-c", command}, sql)
}

const (
	// backPause and backTries bound how long Patroni may take to be back.
	backPause = 500 * time.Millisecond
	backTries = 120
)

// dcs gives Patroni the addresses of etcd. It reads them at its start only: a reload leaves it with those it began with.
// From then on it follows etcd's own list of members, which it asks for when one of them fails: that goes well as long as
// it finds another one, and no longer when all that it knows are gone by the end of a roll-out of etcd. Before that, its
// process is ended and started again by the image, while PostgreSQL goes on: the leader's key outlasts that, as long as ttl.
func (l reload) dcs(ctx context.Context, f renderer.File) error {
	if len(l.app.Upstreams["dcs"].Members) == 0 {
		return nil // rendered without: who they are is no part of the App
	}
	was, err := l.inside.read(ctx, f.Path)
	if err != nil || was == f.Content {
		return err
	}
	if err := l.reachable(ctx); err != nil {
		return err
	}
	began, err := l.inside.read(ctx, beganPath)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishFor)
	defer cancel()
	if follows(began, f.Content) {
		return l.inside.write(ctx, f) // for its next start
	}
	if err := l.keeps(ctx); err != nil {
		return err
	}
	if err = l.startWith(ctx, f); err == nil || was == "" {
		return err
	}
	f.Content = was
	return errors.Join(err, l.startWith(ctx, f))
}

// beganPath is where the addresses are noted that a running Patroni began with.
const beganPath = "/run/homelab-ops/patroni-dcs.yml"

// follows tells whether a Patroni that began with some addresses finds the way to others by itself: more than half of
// those it began with are still among them.
func follows(began, now string) bool {
	before, after := hostsIn(began), hostsIn(now)
	left := 0
	for _, host := range before {
		if slices.Contains(after, host) {
			left++
		}
	}
	return 2*left > len(before)
}

func hostsIn(content string) []string {
	var config struct{ Etcd3 struct{ Hosts []string } }
	if yaml.Unmarshal([]byte(content), &config) != nil {
		return nil
	}
	return config.Etcd3.Hosts
}

// reachable says why etcd can't be reached at its new addresses, or nil where most of them answer. A Patroni that reached
// none would leave its PostgreSQL without a keeper.
func (l reload) reachable(ctx context.Context) error {
	members := l.app.Upstreams["dcs"].Members
	answered, why := 0, []error(nil)
	for _, m := range members {
		etcd := patroni{fromInside{l.inside.machine, m.Address, l.app.Params.Int("dcs_port")}, renderer.Target{Instance: l.inside.instance}, ""}
		if got, err := etcd.ask(ctx, "GET", "/version", nil, askTime); err != nil || got.status != 200 {
			why = append(why, fmt.Errorf("etcd %s at %s does not answer", m.Instance, m.Address))
			continue
		}
		answered++
	}
	if 2*answered > len(members) {
		return nil
	}
	return fmt.Errorf("from there %d of %d members of etcd can be reached, which is no majority: %w", answered, len(members), errors.Join(why...))
}

// keeps says why a server's Patroni does not keep a running PostgreSQL in a cluster with a leader, or nil.
func (l reload) keeps(ctx context.Context) error {
	v, err := l.patroni.cluster(ctx)
	if err != nil {
		return err
	}
	if _, err := v.leader(); err != nil {
		return err
	}
	s, err := l.patroni.status(ctx)
	if err == nil && s.State != "running" {
		err = fmt.Errorf("PostgreSQL is %s", s.State)
	}
	return err
}

// startWith starts Patroni again on a file, and waits until it keeps its PostgreSQL.
func (l reload) startWith(ctx context.Context, f renderer.File) error {
	if err := l.inside.write(ctx, f); err != nil {
		return err
	}
	if _, err := l.inside.run(ctx, "start Patroni again", []string{"python3", "-c", killProgram, configDir}, ""); err != nil {
		return err
	}
	var err error
	for range backTries {
		if err = l.keeps(ctx); err == nil {
			return l.inside.write(ctx, renderer.File{Path: beganPath, Content: f.Content})
		}
		if late := l.wait(ctx, backPause); late != nil {
			break
		}
	}
	return fmt.Errorf("its Patroni was started again, and is not back: %w", err)
}
