package postgres

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A setting of PostgreSQL belongs to one of four places, which Patroni's rules decide
// (https://patroni.readthedocs.io/en/latest/patroni_configuration.html) together with PostgreSQL's: what is read at a
// start of the server alone (context postmaster in pg_settings) takes a new generation here, so that the plan shows the
// switchover that it costs, and a wrong value ends with its candidate.

// ruled are settings that Patroni or this type sets itself.
var ruled = []string{
	"listen_addresses", "port", "cluster_name", "hot_standby", "wal_log_hints", "wal_keep_segments", "data_directory", "config_file", "hba_file",
	"ident_file", "external_pid_file", "synchronous_standby_names", "unix_socket_directories", "archive_cleanup_command",
	"pause_at_recovery_target", "primary_conninfo", "primary_slot_name", "promote_trigger_file", "restore_command", "standby_mode", "trigger_file",
}

// shared are settings that must agree on all members, which Patroni therefore takes from its cluster-wide configuration
// alone. All of them are read at a start.
var shared = []string{
	"max_connections", "max_locks_per_transaction", "max_prepared_transactions", "max_replication_slots", "max_wal_senders", "max_worker_processes",
	"track_commit_timestamp", "wal_level",
}

// slots is max_replication_slots where the App names none. Patroni 4 keeps the slot of each member that is gone for
// member_slots_ttl, and with Patroni's own default of 10 the second roll-out of five members within five minutes, or the third
// of three, finds none left to copy the data with. A member's move takes ten seconds at the least, so that no more than 33 can
// have gone within the default of member_slots_ttl and ttl. One that isn't used costs some hundred bytes.
const slots = "64"

// sharedHot is the one that Patroni takes from there too and that a running server reads again.
const sharedHot = "wal_keep_size"

// atStart are settings of a single server that are read when it starts, in any of the releases 13 to 18.
var atStart = []string{
	"archive_mode", "autovacuum_freeze_max_age", "autovacuum_max_workers", "autovacuum_multixact_freeze_max_age", "autovacuum_worker_slots", "bonjour",
	"bonjour_name", "commit_timestamp_buffers", "data_sync_retry", "debug_io_direct", "dynamic_shared_memory_type", "event_source", "huge_page_size",
	"huge_pages", "io_max_combine_limit", "io_max_concurrency", "io_method", "jit_provider", "logging_collector", "max_active_replication_origins",
	"max_files_per_process", "max_logical_replication_workers", "max_notify_queue_pages", "max_pred_locks_per_transaction",
	"min_dynamic_shared_memory", "multixact_member_buffers", "multixact_offset_buffers", "notify_buffers", "old_snapshot_threshold",
	"reserved_connections", "serializable_buffers", "shared_buffers", "shared_memory_type", "shared_preload_libraries", "subtransaction_buffers",
	"superuser_reserved_connections", "track_activity_query_size", "transaction_buffers", "unix_socket_group", "unix_socket_permissions", "wal_buffers",
	"wal_decode_buffer_size",
}

// settings are those of an App, sorted by who reads them and when.
type settings struct {
	shared    map[string]string // of the cluster, at a start
	sharedHot map[string]string // of the cluster, at any time
	atStart   map[string]string // of one server, at its start
	hot       map[string]string // of one server, at any time
}

func sortSettings(given map[string]string) settings {
	s := settings{map[string]string{"max_replication_slots": slots}, map[string]string{}, map[string]string{}, map[string]string{}}
	for name, value := range given {
		name = strings.ToLower(name)
		to := s.hot
		switch {
		case slices.Contains(shared, name):
			to = s.shared
		case name == sharedHot:
			to = s.sharedHot
		case slices.Contains(atStart, name):
			to = s.atStart
		}
		to[name] = value
	}
	return s
}

// checkSettings refuses settings that are not the user's to make.
func checkSettings(v any) error {
	given := v.(map[string]any)
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		lower := strings.ToLower(name)
		switch {
		case slices.Contains(ruled, lower) || strings.HasPrefix(lower, "recovery_"):
			return fmt.Errorf("has %q, which Patroni sets itself: leave it out", name)
		case seen[lower]:
			return fmt.Errorf("has %q twice: PostgreSQL doesn't tell upper from lower case there", lower)
		case !settingName(lower):
			return fmt.Errorf("has %q, which can't be the name of a setting", name)
		case strings.ContainsAny(given[name].(string), "\r\n"):
			return fmt.Errorf("has a line break in the value of %q", name)
		}
		seen[lower] = true
	}
	return nil
}

func settingName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '.'
	})
}
