package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
)

// Lab is one private Incus that is up.
type Lab struct {
	state  state
	record Record
	server Server

	clientCertificate, clientKey, serverCertificate string

	alone bool // a test holds it that may disturb the daemon
}

var (
	// errIncomplete says that the lab came up halfway.
	errIncomplete = errors.New("the lab came up halfway")
	// errStopped says that the lab is there, but its daemon doesn't run.
	errStopped = errors.New("the lab's daemon doesn't run")
)

// Open returns the lab in dir, which must be up.
func Open(dir string) (*Lab, error) {
	lab, err := open(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return lab, nil
}

// open returns the lab also with errStopped, for those who want to start it again.
func open(dir string) (*Lab, error) {
	record, err := state(dir).readRecord()
	if err != nil {
		return nil, err
	}
	if !record.Complete {
		return nil, errIncomplete
	}
	lab := &Lab{state: state(dir), record: record, server: newServer(dir)}
	if err := lab.readCertificates(); err != nil {
		return nil, err
	}
	if lab.server.Pid() == 0 {
		return lab, errStopped
	}
	return lab, nil
}

// Dir is the lab's state directory.
func (l *Lab) Dir() string { return string(l.state) }

// Record tells what the lab chose when it came up.
func (l *Lab) Record() Record { return l.record }

// Server is the lab's daemon.
func (l *Lab) Server() Server { return l.server }

// Socket is the path of the daemon's Unix socket.
func (l *Lab) Socket() string { return l.server.Socket() }

// Address is the URL of the daemon's HTTPS listener.
func (l *Lab) Address() string { return "https://" + l.record.Address }

// Pool is the name of the storage pool.
func (l *Lab) Pool() string { return l.record.Pool }

// Network is the name of the managed bridge.
func (l *Lab) Network() string { return l.record.Bridge }

// StaticAddress returns the i-th address of the bridge's subnet that DHCP never gives away.
func (l *Lab) StaticAddress(i int) netip.Addr { return l.record.Subnet.Static(i % staticCount) }

// ClientCertificatePath and ClientKeyPath name the files with the client certificate that the daemon trusts.
func (l *Lab) ClientCertificatePath() string { return l.state.clientCertificate() }

// ClientKeyPath names the file with the key of the client certificate.
func (l *Lab) ClientKeyPath() string { return l.state.clientKey() }

// ServerCertificatePath names the file with the daemon's own certificate, to pin it.
func (l *Lab) ServerCertificatePath() string { return filepath.Join(l.server.Dir, "server.crt") }

// ClientCertificate is a client certificate that the daemon trusts, as PEM text.
func (l *Lab) ClientCertificate() string { return l.clientCertificate }

// ClientKey is the key of the client certificate, as PEM text.
func (l *Lab) ClientKey() string { return l.clientKey }

// ServerCertificate is the daemon's own certificate, as PEM text, to pin it.
func (l *Lab) ServerCertificate() string { return l.serverCertificate }

// Incus runs the incus CLI against the lab and returns what it printed.
func (l *Lab) Incus(ctx context.Context, arguments ...string) (string, error) {
	return l.server.Run(ctx, arguments...)
}

// IncusWith is Incus with something on standard input.
func (l *Lab) IncusWith(ctx context.Context, input string, arguments ...string) (string, error) {
	return l.server.runWithInput(ctx, input, arguments...)
}

// readCertificates reads the certificates that the daemon and we made.
func (l *Lab) readCertificates() error {
	for path, text := range map[string]*string{
		l.ClientCertificatePath(): &l.clientCertificate,
		l.ClientKeyPath():         &l.clientKey,
		l.ServerCertificatePath(): &l.serverCertificate,
	} {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read a certificate of the lab: %w", err)
		}
		*text = string(data)
	}
	return nil
}

// serverVersion reads the version from the answer to GET /1.0.
func serverVersion(answer string) string {
	var response struct {
		Metadata struct {
			Environment struct {
				ServerVersion string `json:"server_version"`
			} `json:"environment"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(answer), &response); err != nil {
		return "unknown"
	}
	return response.Metadata.Environment.ServerVersion
}
