// Package lab is a real Incus for tests, benchmarks and the demo: a private daemon with its own directory, storage pool,
// bridge, HTTPS listener and client certificate, which needs no init system and leaves nothing behind.
//
// It comes up with `make lab-up` (or `go run ./internal/lab/cmd/lab up`), stays up between test runs, and lives in one
// state directory: /var/tmp/homelabops-lab, or what HOMELABOPS_LAB names. Labs with different state directories run
// beside each other, and beside an Incus of the machine's own. To look around in it:
//
//	eval "$(go run ./internal/lab/cmd/lab env)"   # INCUS_DIR and INCUS_CONF for the incus CLI, HOMELABOPS_* for the provider
//	incus list --all-projects
//
// Tests call Attach, or AttachAlone where they disturb the daemon.
//
// Beside the one server there is a Cluster of three, with faults, in a directory of its own: AttachCluster and
// AttachClusterAlone, `lab cluster` and `make cluster-up`.
//
// The package talks to Incus through its CLI, so that a fault in our own client can't hide behind the same fault here.
package lab
