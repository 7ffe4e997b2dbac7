// Package daemon replaces the configuration of a running daemon and confirms that it runs on the new one. A Daemon has a
// master process and workers (nginx, haproxy): it validates a file before it is put in place, and starts new workers on a
// signal. A Web validates when it is asked over HTTP to read its file again (alloy, prometheus).
package daemon
