package postgres

import (
	"errors"
	"regexp"
	"strings"
	"unicode"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Type implements renderer.Renderer.
func (Renderer) Type() renderer.Type {
	return renderer.Type{
		Name: "postgres",
		Description: "PostgreSQL with Patroni, which keeps who leads in etcd and alone decides it: this type asks Patroni, and never promotes a server itself. " +
			"With two replicas or more a roll-out adds the next generation of a member beside the present one, as a replica that copies its data from its peers, " +
			"waits until it streams and has all that the leader has, and then removes the old one; replicas move first, and before the leader's member moves " +
			"Patroni switches over to a replica that has everything, which stops writes for about two seconds. One that lags, or whose receiver is stopped, is never chosen. " +
			"A single server is stopped and started in place on its volume, which `rollout.allow_downtime` must allow.\n\n" +
			"The image brings PostgreSQL, Patroni and `python3`, and its init starts `patroni " + configDir + "` as the user `" + osUser + "` once `" + startPath + "` is there, " +
			"starts it again when it ends, and ends it with SIGTERM when the instance is stopped; folders for data belong to that user. Major releases can't be crossed by a replica: " +
			"an image of another one is refused.\n\n" +
			"The passwords are those that a new cluster is made with, printable ASCII, and each run needs them: new members reach the others with them. To change one later, change it in the database (`ALTER ROLE`) before it is changed here. " +
			"Who reaches `restapi_port` may ask Patroni for its state and, without the secret `restapi`, also tell it what to do.",
		Class: app.Asymmetric,
		Params: []renderer.Param{
			{Name: "scope", Kind: renderer.String, Check: checkScope, Description: "Patroni's name for the cluster. The App's name where it is left out."},
			{Name: "postgresql", Kind: renderer.Texts, Check: checkSettings, Description: "Settings of PostgreSQL, as in `postgresql.conf`. What a running server reads again " +
				"is changed in place, member by member, and a value that PostgreSQL refuses is an error that leaves the old one; what it reads only at its start (`shared_buffers`, `max_connections`, …) " +
				"takes a new generation. Of the eight that all members share (`max_connections`, `max_locks_per_transaction`, `max_prepared_transactions`, `max_replication_slots`, " +
				"`max_wal_senders`, `max_worker_processes`, `track_commit_timestamp`, `wal_level`) a replica that starts before its leader has the lower value keeps the higher one until its next restart, " +
				"which `patronictl list` shows as pending."},
			{Name: "pg_hba", Kind: renderer.List, Check: checkRules, Description: "Lines of `pg_hba.conf` that say who may connect, in place of `host all all all scram-sha-256`. " +
				"Those by which members reach each other come before them."},
			{Name: "synchronous", Kind: renderer.Bool, Default: true, Description: "Whether a commit waits until a replica has it, so that a failover loses none. While there is no replica, " +
				"the leader goes on without."},
			{Name: "synchronous_strict", Kind: renderer.Bool, Default: false, Description: "Whether, while there is no replica, commits wait for one instead."},
			{Name: "synchronous_node_count", Kind: renderer.Int, Default: 1, Check: positive, Description: "How many replicas a commit waits for."},
			{Name: "max_lag", Kind: renderer.Int, Default: 0, Check: notNegative, Description: "How many bytes a healthy replica may be behind where the leader was when it was asked."},
			{Name: "port", Kind: renderer.Port, Default: 5432, Description: "Port of PostgreSQL."},
			{Name: "restapi_port", Kind: renderer.Port, Default: 8008, Description: "Port of Patroni's REST API: `/primary` answers with 200 at the writer alone, `/replica` at readers."},
			{Name: "dcs_port", Kind: renderer.Port, Default: 2379, Description: "Port that clients reach the members of the upstream `dcs` at."},
			{Name: "ttl", Kind: renderer.Duration, Default: "30s", Check: atLeast(20e9), Description: "How long a leader that is not heard of stays leader."},
			{Name: "loop_wait", Kind: renderer.Duration, Default: "10s", Check: atLeast(1e9), Description: "How often Patroni looks after its server."},
			{Name: "retry_timeout", Kind: renderer.Duration, Default: "10s", Check: atLeast(3e9), Description: "How long Patroni tries to reach etcd and PostgreSQL before a leader steps down. " +
				"It stays leader as long as all members confirm it (Patroni's failsafe mode)."},
			{Name: "member_slots_ttl", Kind: renderer.Duration, Default: "5m", Check: atLeast(0), Description: "For how long the leader keeps what a member that is gone would need when it came back " +
				"(Patroni 4; earlier ones keep nothing). Members that a roll-out removed count as gone: until then their replication slots hold log on the leader's disk, " +
				"and take up some of `max_replication_slots`, which is " + slots + " where `postgresql` has none."},
			{Name: "data_path", Kind: renderer.String, Default: "/var/lib/postgresql/data", Check: checkDirectory, Description: "Where the data is: mount a volume there. PostgreSQL's own directory is `pgdata` in it. " +
				"With two replicas or more every generation gets a new volume."},
			{Name: "bin_dir", Kind: renderer.String, Default: "/usr/lib/postgresql/bin", Check: checkDirectory, Description: "Where the image has PostgreSQL's programs. In Debian's packages that is `/usr/lib/postgresql/<major>/bin`."},
		},
		Upstreams: []renderer.UpstreamSpec{{Name: "dcs", Required: true, Types: []string{"etcd"}, Description: "The etcd in which Patroni keeps who leads. Patroni follows a change of its members by itself; " +
			"before all are gone that it began with, it is started again with the new ones, one instance after the other, while its PostgreSQL goes on."}},
		Secrets: []renderer.SecretSpec{
			{Name: "superuser", Required: true, Check: plain, Description: "Password of the role `" + superuser + "`."},
			{Name: "replication", Required: true, Check: plain, Description: "Password of the roles `" + replicationUser + "` and `" + rewindUser + "`, which members use with each other."},
			{Name: "restapi", Check: plain, Description: "Password of the user `" + restUser + "`, without which Patroni's REST API only answers questions."},
		},
	}
}

// plain are passwords that all who handle them understand: members read them from a file with one on each line (libpq's
// .pgpass), and Patroni fails at setting one that is not ASCII while it begins a cluster (quote_literal in its psycopg.py).
func plain(password string) error {
	switch {
	case strings.ContainsFunc(password, unicode.IsControl):
		return errors.New("has a line break or another control character, with which members can't reach each other: of a file take trimspace(file(…))")
	case strings.ContainsFunc(password, func(r rune) bool { return r > unicode.MaxASCII }):
		return errors.New("has a character that is not ASCII, which Patroni can't set as a password: use letters, digits and signs of ASCII")
	}
	return nil
}

var scopeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

func checkScope(v any) error {
	if !scopeName.MatchString(v.(string)) {
		return errors.New("must be letters, digits, dots, hyphens and underscores, and begin with a letter or digit")
	}
	return nil
}
