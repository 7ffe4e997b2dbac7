package certificate

import (
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// DefaultPath is the folder that the files are in where the user says nothing else.
const DefaultPath = "/etc/homelab-ops/tls"

// Names of the files. Those of certificate and key are what Kubernetes and most tools call them.
const (
	certificateName = "tls.crt"
	keyName         = "tls.key"
	caName          = "ca.crt"
)

// Param is the parameter by which a user asks for certificates.
func Param() renderer.Param {
	return renderer.Param{
		Name: "tls", Kind: renderer.Object,
		Description: "Gives each instance a TLS certificate of its own, for server and client use: `tls.crt`, `tls.key` (mode 0400) and " +
			"`ca.crt` in the folder `path`. It is made when an instance is created, is valid for the names of the instance, the App and " +
			"the node, and a new generation brings a new one. The instance's key is never in state, plan or Incus's configuration; " +
			"`ca_key` is in Terraform's state, as every parameter is: give it by a `sensitive` variable.",
		Fields: []renderer.Param{
			{Name: "ca_certificate", Kind: renderer.String, Required: true, Description: "Certificate of the CA, as PEM. Another one " +
				"takes a new generation, and so a new certificate for each instance."},
			{Name: "ca_key", Kind: renderer.String, Required: true, Secret: true, Description: "Private key of the CA, as PEM without a passphrase. " +
				"It only signs: it never reaches an instance."},
			{Name: "path", Kind: renderer.String, Default: DefaultPath, Check: checkPath, Description: "Folder in the instance for the files."},
			{Name: "valid_for", Kind: renderer.Duration, Check: checkValidFor, Description: "How long a certificate is valid, for example " +
				"`\"8760h\"`. Unless it is given, and at most, until the CA's own certificate ends. Nothing renews a certificate in a running " +
				"instance: a new generation does."},
		},
	}
}

func checkPath(v any) error { return renderer.CheckPath(v.(string)) }

func checkValidFor(v any) error {
	if d, err := time.ParseDuration(v.(string)); err != nil || d <= 0 {
		return errors.New("must be longer than no time")
	}
	return nil
}

// Settings are what the user says about certificates.
type Settings struct {
	caCertificate string
	caKey         string
	path          string
	validFor      time.Duration
}

// Given reads the parameter. ok is false where the user didn't give it.
func Given(params renderer.Params) (s Settings, ok bool) {
	if !params.Has(Param().Name) {
		return Settings{}, false
	}
	p := params.Object(Param().Name)
	return Settings{p.String("ca_certificate"), p.String("ca_key"), p.String("path"), p.Duration("valid_for")}, true
}

// Check tells why no certificates can be issued by these settings, apart from what depends on the time, or why they would
// be in the way of the App's own files.
func (s Settings) Check(files []renderer.File) error {
	if _, err := ParseCA(s.caCertificate, s.caKey); err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	ours := []string{s.CertificatePath(), s.KeyPath(), s.CAPath()}
	for _, f := range files {
		if slices.Contains(ours, f.Path) {
			return fmt.Errorf("file %s is written because of tls: leave it out of files", f.Path)
		}
	}
	return nil
}

// validForKey notes on an instance how long its certificate was to be valid.
const validForKey = "user.tls.valid-for"

// AddTo adds to the Spec what is the same for all instances and takes new certificates to change: the CA's certificate,
// and for how long they are valid. The key of the CA isn't part of it.
func (s Settings) AddTo(spec *renderer.Spec) error {
	if s.validFor > 0 {
		spec.Config[validForKey] = s.validFor.String()
	}
	return spec.AddFiles(renderer.File{Path: s.CAPath(), Content: strings.TrimSpace(s.caCertificate) + "\n"})
}

// Issue returns the files of one instance alone: its certificate and the key for it.
func (s Settings) Issue(id app.Identity, now time.Time) ([]renderer.File, error) {
	return s.IssueAt(id, nil, now)
}

// IssueAt is Issue for an instance whose addresses are known: its certificate is valid for those too, as software needs
// that names its peers by address.
func (s Settings) IssueAt(id app.Identity, addresses []string, now time.Time) ([]renderer.File, error) {
	ca, err := ParseCA(s.caCertificate, s.caKey)
	if err != nil {
		return nil, err
	}
	names := []string{id.Instance, id.App}
	if id.Node != "" && id.Node != id.App {
		names = append(names, id.Node)
	}
	var ips []net.IP
	for _, address := range addresses {
		ip := net.ParseIP(address)
		if ip == nil {
			return nil, fmt.Errorf("a certificate for %s: %q is no address", id.Instance, address)
		}
		ips = append(ips, ip)
	}
	certificate, key, err := Issue(ca, Request{CommonName: id.Instance, DNSNames: names, IPs: ips, ValidFor: s.validFor}, now)
	if err != nil {
		return nil, err
	}
	return []renderer.File{
		{Path: s.CertificatePath(), Content: certificate},
		{Path: s.KeyPath(), Content: key, Mode: 0o400},
	}, nil
}

// CertificatePath is where an instance has its certificate.
func (s Settings) CertificatePath() string { return path.Join(s.path, certificateName) }

// KeyPath is where an instance has the key of its certificate.
func (s Settings) KeyPath() string { return path.Join(s.path, keyName) }

// CAPath is where an instance has the certificate of the CA.
func (s Settings) CAPath() string { return path.Join(s.path, caName) }
