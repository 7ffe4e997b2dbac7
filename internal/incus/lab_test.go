//go:build lab

package incus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
)

func TestLabServesOverTLSWithAPin(t *testing.T) {
	server := lab.Attach(t)
	cfg := incus.Config{
		Address: server.Address(), ClientCertificate: server.ClientCertificate(), ClientKey: server.ClientKey(),
		ServerCertificate: server.ServerCertificate(), Project: server.Project(t),
	}
	got, err := connect(t, cfg).GetServer(t.Context())
	if err != nil || got.Auth != "trusted" {
		t.Fatalf("got %+v, %v", got, err)
	}
	cfg.ServerCertificate = got.Environment.CertificateFingerprint
	client := connect(t, cfg)
	if _, err := client.GetInstances(t.Context(), incus.InstancesFilter{}); err != nil {
		t.Error(err)
	}

	name := "tls"
	op, err := client.CreateInstance(t.Context(), incus.InstancesPost{
		Name: name, Start: true, Source: incus.InstanceSource{Type: "image", Alias: server.Image(t, "web/1.0.0")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := op.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	result, err := client.ExecInstance(t.Context(), name, incus.ExecPost{Command: []string{"echo", "over TLS"}})
	if err != nil || string(result.Stdout) != "over TLS\n" {
		t.Errorf("got %+v, %v", result, err)
	}

	other, _ := keyPair(t)
	cfg.ServerCertificate = other
	var mismatch *incus.CertificateError
	if _, err := connect(t, cfg).GetServer(t.Context()); !errors.As(err, &mismatch) {
		t.Errorf("got %v for another pin", err)
	}
}

func TestLabRefusesAnUnknownClientUntilItsTokenIsRedeemed(t *testing.T) {
	server := lab.Attach(t)
	certificate, key := keyPair(t)
	cfg := incus.Config{Address: server.Address(), ClientCertificate: certificate, ClientKey: key, ServerCertificate: server.ServerCertificate()}
	stranger := connect(t, cfg)
	if _, err := stranger.GetInstances(t.Context(), incus.InstancesFilter{}); !errors.Is(err, incus.ErrForbidden) {
		t.Errorf("got %v, want forbidden", err)
	}
	if _, err := stranger.EnsureImage(t.Context(), incus.ImageSource{Alias: server.Image(t, "web/1.0.0")}, ""); !errors.Is(err, incus.ErrForbidden) {
		t.Errorf("got %v for an image, want forbidden", err)
	}

	name := "contract-" + fingerprintOf(certificate)[:8]
	token, err := server.Incus(t.Context(), "config", "trust", "add", name, "--quiet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = server.Incus(context.Background(), "config", "trust", "revoke-token", name) // spent where the test passed
		if _, err := server.Incus(context.Background(), "config", "trust", "remove", fingerprintOf(certificate)); err != nil {
			t.Error(err)
		}
	})
	lines := strings.Fields(token)
	cfg.TrustToken, cfg.ServerCertificate = lines[len(lines)-1], "" // the token pins the server
	for range 2 {
		if _, err := connect(t, cfg).GetInstances(t.Context(), incus.InstancesFilter{}); err != nil {
			t.Error(err) // the second time the token is spent and not needed
		}
	}
}

func TestLabWaitOverARestartIsHonest(t *testing.T) {
	server := lab.AttachAlone(t)
	client := connect(t, incus.Config{Address: "unix://" + server.Socket(), Project: server.Project(t)})
	op, err := client.CreateInstance(t.Context(), incus.InstancesPost{
		Name: "restart", Source: incus.InstanceSource{Type: "image", Alias: server.Image(t, "web/1.0.0")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := op.Wait(t.Context()); !errors.Is(err, incus.ErrOutcomeUnknown) || errors.Is(err, incus.ErrNotFound) {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	if _, err := client.GetInstances(t.Context(), incus.InstancesFilter{}); err != nil {
		t.Errorf("the same client after the restart: %v", err)
	}
}

func TestLabReadsRideOutARestart(t *testing.T) {
	server := lab.AttachAlone(t)
	client := connect(t, incus.Config{Address: server.Address(), ClientCertificate: server.ClientCertificate(), ClientKey: server.ClientKey(), ServerCertificate: server.ServerCertificate()})
	if _, err := client.GetServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := client.GetFreshServer(t.Context())
		read <- err
	}()
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}

func TestLabClusterVolumeOfALostMemberIsListedWithItsTags(t *testing.T) {
	cluster := lab.AttachClusterAlone(t)
	leader, err := cluster.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, member := range cluster.Members() {
		if member.Name != leader {
			names = append(names, member.Name)
		}
	}
	stays, lost := names[0], names[1]
	client, err := incus.New(incus.Config{Address: "unix://" + cluster.Socket(stays), Project: cluster.Project(t), UserAgent: "incustest"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	there := client.UseTarget(lost)
	if err := there.CreateStoragePoolVolume(t.Context(), cluster.Pool(), incus.StorageVolume{Name: "data", Config: map[string]string{"user.tag": "1"}}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Kill(lost); err != nil {
		t.Fatal(err)
	}
	for offline := false; !offline; time.Sleep(200 * time.Millisecond) {
		member, err := client.GetClusterMember(t.Context(), lost)
		offline = err == nil && member.Status == "Offline"
	}
	incustest.CheckLostVolume(t, client, cluster.Pool(), "data", lost)
}
