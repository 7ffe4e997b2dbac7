package etcd

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/certificate"
)

// configuration is etcd's own file of settings (https://etcd.io/docs/v3.5/op-guide/configuration/), with the names that 3.4
// and all later releases know.
type configuration struct {
	Name            string `yaml:"name"`
	Data            string `yaml:"data-dir"`
	ListenPeers     string `yaml:"listen-peer-urls"`
	ListenClients   string `yaml:"listen-client-urls"`
	AdvertisePeers  string `yaml:"initial-advertise-peer-urls"`
	AdvertiseClient string `yaml:"advertise-client-urls"`
	// Initial is who is in the cluster when this member starts for the first time. etcd looks at it, at State and at Token
	// only where there is no data yet.
	Initial string `yaml:"initial-cluster"`
	State   string `yaml:"initial-cluster-state"`
	Token   string `yaml:"initial-cluster-token,omitempty"`
	// Force has etcd forget all other members that its data knows. It must be gone before there are others.
	Force bool `yaml:"force-new-cluster,omitempty"`

	// Gateway has etcd answer JSON over HTTP too, as it does by default, but not where it has a file of settings. Patroni asks
	// that way.
	Gateway bool `yaml:"enable-grpc-gateway"`

	CompactionMode string         `yaml:"auto-compaction-mode,omitempty"`
	Compaction     string         `yaml:"auto-compaction-retention,omitempty"`
	Quota          int            `yaml:"quota-backend-bytes,omitempty"`
	SnapshotCount  int            `yaml:"snapshot-count,omitempty"`
	Heartbeat      int64          `yaml:"heartbeat-interval"` // milliseconds
	Election       int64          `yaml:"election-timeout"`   // milliseconds
	Clients        *security      `yaml:"client-transport-security,omitempty"`
	Peers          *security      `yaml:"peer-transport-security,omitempty"`
	Rest           map[string]any `yaml:",inline"` // what another version of this provider has written
}

// security is who may connect, and how a member shows who it is.
type security struct {
	Certificate string `yaml:"cert-file"`
	Key         string `yaml:"key-file"`
	CA          string `yaml:"trusted-ca-file"`
	Required    bool   `yaml:"client-cert-auth"`
}

const (
	stateNew      = "new"
	stateExisting = "existing"
)

// configure returns the configuration of an instance at an address, but for who else is in the cluster.
func configure(a renderer.App, instance, address string) configuration {
	peers, clients := peerURL(a, address), clientURL(a, address)
	c := configuration{
		Name: instance, Data: path.Join(DataPath, instance),
		ListenPeers: withHost(peers, anyHost(address)), ListenClients: withHost(clients, anyHost(address)),
		AdvertisePeers: peers, AdvertiseClient: clients, Gateway: true,
		Quota: a.Params.Int("quota_backend_bytes"), SnapshotCount: a.Params.Int("snapshot_count"),
		Heartbeat: a.Params.Duration("heartbeat_interval").Milliseconds(), Election: a.Params.Duration("election_timeout").Milliseconds(),
	}
	if keep := a.Params.Duration("auto_compaction"); keep > 0 {
		c.CompactionMode, c.Compaction = "periodic", keep.Round(time.Second).String()
	}
	if tls, ok := certificate.Given(a.Params); ok {
		s := security{Certificate: tls.CertificatePath(), Key: tls.KeyPath(), CA: tls.CAPath(), Required: true}
		c.Peers = &s
		if a.Params.Bool("client_tls") {
			c.Clients = &s
		}
	}
	return c
}

// form says that the cluster is made by these instances, and by no others. The token keeps apart clusters that were formed
// one after the other at the same addresses: it has a generation in it.
func (c configuration) form(urls map[string]string) configuration {
	c.Initial, c.State = initial(urls), stateNew
	for name := range urls {
		if c.Token == "" || name < c.Token {
			c.Token = name
		}
	}
	return c
}

// join says that the cluster is there already, with these members, this one among them.
func (c configuration) join(urls map[string]string) configuration {
	c.Initial, c.State = initial(urls), stateExisting
	return c
}

// initial lists members as etcd does: every URL with the name before it. Several URLs of one member are separated by
// commas in urls.
func initial(urls map[string]string) string {
	var all []string
	for name, list := range urls {
		for one := range strings.SplitSeq(list, ",") {
			all = append(all, name+"="+one)
		}
	}
	slices.SortFunc(all, cmp.Compare)
	return strings.Join(all, ",")
}

// goOn says that the cluster goes on alone with data that an earlier one has left.
func (c configuration) goOn(data string) configuration {
	c.Data, c.Force = data, true
	return c
}

// at is the same configuration for an instance whose address has changed.
func (c configuration) at(address string) configuration {
	c.AdvertisePeers, c.AdvertiseClient = withHost(c.AdvertisePeers, address), withHost(c.AdvertiseClient, address)
	c.ListenPeers, c.ListenClients = withHost(c.ListenPeers, anyHost(address)), withHost(c.ListenClients, anyHost(address))
	return c
}

// text is the file.
func (c configuration) text() (string, error) {
	body, err := yaml.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("write etcd's configuration: %w", err)
	}
	return "# Written by homelabops when this instance became part of its cluster. Changes are overwritten.\n" + string(body), nil
}

func parseConfiguration(text string) (configuration, error) {
	var c configuration
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return c, fmt.Errorf("read %s: %w", Path, err)
	}
	if c.Name == "" || c.Data == "" || c.AdvertisePeers == "" || c.AdvertiseClient == "" {
		return c, fmt.Errorf("%s was not written by this App type: it says no name, data-dir or advertised URL", Path)
	}
	return c, nil
}

func peerURL(a renderer.App, address string) string {
	_, secure := certificate.Given(a.Params)
	return urlOf(secure, address, a.Params.Int("peer_port"))
}

func clientURL(a renderer.App, address string) string {
	return urlOf(a.Params.Bool("client_tls"), address, a.Params.Int("client_port"))
}

func urlOf(secure bool, address string, port int) string {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(address, strconv.Itoa(port))
}

// withHost returns the same URL for another host, and as it is what is no URL.
func withHost(text, host string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	u.Host = net.JoinHostPort(host, u.Port())
	return u.String()
}

// hostOf returns the host of a URL, "" where it has none.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// anyHost is all addresses, of the family that an address is of.
func anyHost(address string) string {
	if strings.Contains(address, ":") {
		return "::"
	}
	return "0.0.0.0"
}
