package certificate

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
)

// handshake has a client of settings speak with an instance that has files of other settings, and asks the client for a
// certificate of the CA.
func handshake(t *testing.T, client, instance Settings, name string) (clientErr, serverErr error) {
	t.Helper()
	files, err := instance.IssueAt(app.Identity{App: "dcs", Member: "0", Instance: "dcs-0-g0"}, []string{"10.0.0.7", "fd42::7"}, now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(files[0].Content), []byte(files[1].Content))
	if err != nil {
		t.Fatal(err)
	}
	at := func() time.Time { return now }
	server, err := instance.Client("server", now) // for its CAs
	if err != nil {
		t.Fatal(err)
	}
	server = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: server.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert, Time: at, MinVersion: tls.VersionTLS12}
	config, err := client.Client("homelabops", now)
	if err != nil {
		t.Fatal(err)
	}
	config.ServerName, config.Time = name, at
	near, far := net.Pipe()
	defer func() { _ = near.Close() }()
	served := make(chan error, 1)
	go func() {
		conn := tls.Server(far, server)
		err := conn.Handshake()
		if err == nil {
			_, err = conn.Write([]byte("x"))
		}
		_ = far.Close()
		served <- err
	}()
	conn := tls.Client(near, config)
	if clientErr = conn.Handshake(); clientErr == nil {
		_, clientErr = conn.Read(make([]byte, 1))
	}
	_ = near.Close()
	return clientErr, <-served
}

func TestThisProcessSpeaksWithInstancesOfTheSameCA(t *testing.T) {
	ours, other := given(t, newAuthority(t, nil), nil), given(t, newAuthority(t, nil), nil)
	for _, name := range []string{"dcs-0-g0", "10.0.0.7", "fd42::7"} {
		if near, far := handshake(t, ours, ours, name); near != nil || far != nil {
			t.Errorf("%s: %v, %v", name, near, far)
		}
	}
	if near, _ := handshake(t, ours, ours, "10.0.0.8"); near == nil {
		t.Error("another address was accepted")
	}
	if near, far := handshake(t, other, ours, "dcs-0-g0"); near == nil || far == nil {
		t.Errorf("another CA was accepted: %v, %v", near, far)
	}
}

func TestBothCAsAreTrustedWhileOneFollowsTheOther(t *testing.T) {
	before, after := newAuthority(t, nil), newAuthority(t, nil)
	both := given(t, authority{certificate: after.certificate + before.certificate, pkcs8: after.pkcs8}, nil)
	trusts := given(t, authority{certificate: before.certificate + after.certificate, pkcs8: before.pkcs8}, nil)
	if near, far := handshake(t, both, trusts, "dcs-0-g0"); near != nil || far != nil {
		t.Error(near, far)
	}
}

func TestAnAddressThatIsNoneIsSaid(t *testing.T) {
	s := given(t, newAuthority(t, nil), nil)
	if _, err := s.IssueAt(app.Identity{App: "dcs", Instance: "dcs-g0"}, []string{"dcs.example"}, now); err == nil {
		t.Error("it was taken")
	}
}
