// Package etcd is the App type etcd: the members of one quorum, which a roll-out replaces one at a time. Each change of the
// membership is a small step that looks first, so that it can be made again after a crash, an answer that got lost or one
// that came twice.
package etcd

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer/certificate"
)

// Renderer is the App type etcd.
type Renderer struct{}

var (
	_ renderer.Renderer  = Renderer{}
	_ renderer.Clustered = Renderer{}
	_ renderer.Validator = Renderer{}
	_ renderer.Ports     = Renderer{}
	_ renderer.Accorder  = Renderer{}
)

const (
	// Path is the configuration that the image starts etcd with, as soon as it is there.
	Path = "/etc/etcd/etcd.yaml"
	// DataPath is the folder that the data is in, and where a volume may be mounted. Each instance has a folder of its own
	// name in it: a member that starts on another one's data, or on data that it has been removed with, does harm.
	DataPath = "/var/lib/etcd"
)

// Type implements renderer.Renderer.
func (Renderer) Type() renderer.Type {
	return renderer.Type{
		Name: "etcd",
		Description: "A cluster of etcd members, or a single one. The members find each other by address; nobody lists them. A roll-out replaces one member at a " +
			"time and the leader last: the new one is added as a learner, is promoted when it has caught up, takes the lead over where the old one had it, and then the old one is " +
			"taken out of the cluster. Before each step the sum is made whether the cluster still has a quorum afterwards, and the step is refused where it wouldn't. " +
			"More members are added one at a time, and taken out one at a time. " +
			"A member that is dead is taken out first and then replaced. The image brings etcd 3.4 or later and starts it with `" + Path + "`, which this type writes " +
			"once the instance has an address, and starts it again when it ends. The data is below `" + DataPath + "`, where a volume may be mounted: every generation begins on " +
			"an empty one, since its data comes from the others; with one member too, whose data the next one copies. An App that is made again on the volumes of an earlier one goes on with " +
			"their data where it has one member, to which more can be added; with several it is refused, since each volume has a copy of its own age. " +
			"Members advertise their addresses: give the network stable leases. Healthy when etcd answers, knows a leader, has no alarm, and (a voter) serves a " +
			"linearizable read. `etcdctl` in the instance works as usual.",
		Class: app.QuorumMember,
		Params: []renderer.Param{
			{Name: "client_port", Kind: renderer.Port, Default: 2379, Description: "Port for clients, at all addresses."},
			{Name: "peer_port", Kind: renderer.Port, Default: 2380, Description: "Port for the other members, at all addresses."},
			{Name: "auto_compaction", Kind: renderer.Duration, Default: "1h", Check: zeroOrSecond, Description: "How much history of the keys is kept: older revisions are compacted as time " +
				"goes on. `\"0s\"` keeps all, until the quota is full."},
			{Name: "quota_backend_bytes", Kind: renderer.Int, Check: positive, Description: "How large the database may become. Beyond that, etcd raises the alarm " +
				"NOSPACE and refuses writes. Left out, etcd's own: 2 GiB."},
			{Name: "snapshot_count", Kind: renderer.Int, Check: positive, Description: "After how many writes etcd makes a snapshot of its log. Left out, etcd's own, which depends on " +
				"its version."},
			{Name: "heartbeat_interval", Kind: renderer.Duration, Default: "100ms", Check: milliseconds, Description: "How often the leader tells the others that it is there. " +
				"Use about one round trip between the members."},
			{Name: "election_timeout", Kind: renderer.Duration, Default: "1s", Check: milliseconds, Description: "After how long without the leader the others elect " +
				"another one: at least 5 heartbeats, better 10, and at most 50 seconds."},
			tlsParam(),
			{Name: "client_tls", Kind: renderer.Bool, Default: false, Description: "Whether clients must use TLS too, and show a certificate that `tls.ca_certificate` " +
				"has signed. etcd refuses a client's certificate that has names or addresses of which none is the client's. Needs `tls`."},
		},
	}
}

// Desired implements renderer.Renderer. The configuration is not in it: it needs addresses, and Join writes it. What of it
// the App decides is noted on the instance instead, so that a change of it takes a new generation.
func (Renderer) Desired(a renderer.App, id app.Identity) (renderer.Spec, error) {
	spec := renderer.Base(a, id)
	for _, f := range spec.Files {
		if f.Path == Path {
			return renderer.Spec{}, fmt.Errorf("file %s is written by the App type itself: leave it out of files", f.Path)
		}
	}
	for _, p := range (Renderer{}).Type().Params {
		if p.Kind != renderer.Object && a.Params.Has(p.Name) {
			spec.Config["user.etcd."+p.Name] = fmt.Sprint(a.Params[p.Name])
		}
	}
	if tls, ok := certificate.Given(a.Params); ok {
		if err := tls.AddTo(&spec); err != nil {
			return renderer.Spec{}, err
		}
	}
	return spec, nil
}

// Validate implements renderer.Validator.
func (Renderer) Validate(a renderer.App) error {
	heartbeat, election := a.Params.Duration("heartbeat_interval"), a.Params.Duration("election_timeout")
	tls, secure := certificate.Given(a.Params)
	data, onVolume := a.VolumeAt(path.Join(DataPath, "data"))
	switch {
	case a.Replicas > 1 && a.Replicas%2 == 0:
		return renderer.Problem{Path: "replicas", Summary: "Even number of members", Detail: fmt.Sprintf("The quorum of %d is %d, so that %d may fail, as with %d, and there is one more that can. "+
			"Use %d or %d.", a.Replicas, quorum(a.Replicas), a.Replicas-quorum(a.Replicas), a.Replicas-1, a.Replicas-1, a.Replicas+1)}
	case a.Params.Int("client_port") == a.Params.Int("peer_port"):
		return errors.New("client_port and peer_port must differ")
	case election < 5*heartbeat || election > maxElection:
		return fmt.Errorf("election_timeout is %s: etcd takes from 5 times heartbeat_interval (%s) to %s", election, 5*heartbeat, maxElection)
	case a.Params.Bool("client_tls") && !secure:
		return errors.New("client_tls needs tls: give the CA that signs the certificates")
	}
	if onVolume {
		if err := data.OneWriter(); err != nil {
			return err
		}
	}
	if secure {
		return tls.Check(a.Files)
	}
	return nil
}

// Accord implements renderer.Accorder: ports, times and certificates are those by which members reach each other, and a
// history or quota of its own would leave a member with another database.
func (r Renderer) Accord(a, own renderer.App) error {
	for _, p := range r.Type().Params {
		if p.Name != "snapshot_count" && !reflect.DeepEqual(a.Params[p.Name], own.Params[p.Name]) {
			return fmt.Errorf("all members share %s: write it in params of the App", p.Name)
		}
	}
	return nil
}

// Ports implements renderer.Ports. Those of other members are not among them: they last as long as the member does.
func (Renderer) Ports(a renderer.App) []int { return []int{a.Params.Int("client_port")} }

// maxElection is etcd's own bound (maxElectionMs in server/embed/config.go).
const maxElection = 50 * time.Second

func positive(v any) error {
	if v.(int64) <= 0 {
		return errors.New("must be more than 0")
	}
	return nil
}

func zeroOrSecond(v any) error {
	if d, err := time.ParseDuration(v.(string)); err != nil || d != 0 && d < time.Second {
		return errors.New(`must be "0s", or at least one second`)
	}
	return nil
}

func milliseconds(v any) error {
	if d, err := time.ParseDuration(v.(string)); err != nil || d < time.Millisecond || d%time.Millisecond != 0 {
		return errors.New("must be whole milliseconds, at least 1")
	}
	return nil
}

func tlsParam() renderer.Param {
	p := certificate.Param()
	p.Description = "Has the members speak TLS with each other, each with a certificate of its own and refusing who has none of this CA's. The files are `tls.crt`, " +
		"`tls.key` (mode 0400, etcd's own) and `ca.crt` in the folder `path`. The certificate is made when an instance has its address, is valid for that and for the names of " +
		"the instance, the App and the node, and a new generation brings a new one. The instance's key is never in state, plan or Incus's configuration; `ca_key` is in " +
		"Terraform's state, as every parameter is: give it by a `sensitive` variable. TLS can't be switched on or off for a cluster that runs, since its members must understand each other: " +
		"make a new App instead. To change to another CA, have both in `ca_certificate` first."
	return p
}
