package lab

import (
	"fmt"
	"os"
	"path/filepath"
)

// EnvState is the environment variable that names the state directory.
const EnvState = "HOMELABOPS_LAB"

// defaultState is where a lab lives unless EnvState says otherwise. It isn't below /tmp, which is a small file system in
// memory on many machines and is swept on others.
const defaultState = "/var/tmp/homelabops-lab"

// StateDir returns the state directory of the lab that this process uses.
func StateDir() string {
	if dir := os.Getenv(EnvState); dir != "" {
		return filepath.Clean(dir)
	}
	return defaultState
}

// state is a lab's directory. Its parts are named here and nowhere else.
type state string

func (s state) record() string            { return filepath.Join(string(s), "lab.json") }
func (s state) daemon() string            { return filepath.Join(string(s), "incus") }
func (s state) cli() string               { return filepath.Join(string(s), "cli") }
func (s state) clientCertificate() string { return filepath.Join(string(s), "client.crt") }
func (s state) clientKey() string         { return filepath.Join(string(s), "client.key") }
func (s state) use() string               { return filepath.Join(string(s), "use") }
func (s state) useGate() string           { return filepath.Join(string(s), "use-gate") }
func (s state) images() string            { return filepath.Join(string(s), "images") }
func (s state) forward(i int) string      { return filepath.Join(string(s), fmt.Sprintf("forward-%d", i)) }

// lock is held while a lab comes up or goes down. It lies beside the directory, which down removes.
func (s state) lock() string { return string(s) + ".lock" }

// Record is what a lab remembers about itself: everything that was chosen when it came up. It is written before the
// first thing is made, so that a lab that came up halfway can be taken down, and again when all is there.
type Record struct {
	Complete     bool   `json:"complete"`      // false: it came up halfway
	Address      string `json:"address"`       // of the HTTPS listener, host:port
	Bridge       string `json:"bridge"`        // interface, and the name of the network in Incus
	Subnet       Subnet `json:"subnet"`        // what is used for what
	Pool         string `json:"pool"`          // storage pool
	PoolDriver   string `json:"pool_driver"`   // btrfs, or dir where btrfs isn't possible
	PoolReason   string `json:"pool_reason"`   // why it isn't btrfs
	IncusVersion string `json:"incus_version"` // of the daemon that made it
}

func (s state) readRecord() (Record, error)     { return readRecord[Record](s.record()) }
func (s state) writeRecord(record Record) error { return writeRecord(s.record(), record) }
