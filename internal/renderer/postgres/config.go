package postgres

import (
	"bytes"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Patroni merges all files of its directory in the order of their names. Each holds what has one life: what takes a new
// generation, what is reloaded, what is secret, what only a started instance knows.
const (
	configDir   = "/etc/patroni"
	serverPath  = configDir + "/10-server.yml"  // the server and what it reads at a start
	hotPath     = configDir + "/20-hot.yml"     // what a running server reads again
	dcsPath     = configDir + "/30-dcs.yml"     // where etcd is
	secretsPath = configDir + "/40-secrets.yml" //
	clusterPath = configDir + "/50-cluster.yml" // which cluster it belongs to
	// startPath is the file that the image waits for before it starts Patroni. It is written last.
	startPath = configDir + "/patroni.yml"
)

// Names that Patroni and PostgreSQL know each other by.
const (
	osUser          = "postgres" // that the image runs Patroni as
	superuser       = "postgres"
	replicationUser = "replicator"
	rewindUser      = "rewind"
	restUser        = "homelab-ops"
	socketDir       = "/run/postgresql"
)

// object is a mapping of YAML or JSON.
type object = map[string]any

// marshal writes a file of Patroni's configuration: mappings are sorted, so that equal ones give equal files.
func marshal(of string, content object) (string, error) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(content); err != nil {
		return "", fmt.Errorf("write %s: %w", of, err)
	}
	return text.String(), nil
}

// file makes a file of the configuration.
func file(at string, content object) (renderer.File, error) {
	text, err := marshal(at, content)
	return renderer.File{Path: at, Content: text}, err
}

// scope is Patroni's name for the cluster.
func scope(a renderer.App) string {
	if a.Params.Has("scope") {
		return a.Params.String("scope")
	}
	return a.Name
}

// dataDir is where PostgreSQL has its data: below the volume and not at its root, which a file system may have its own
// things in and which can't be renamed or removed, as Patroni does when it makes a copy anew.
func dataDir(a renderer.App) string { return path.Join(a.Params.String("data_path"), "pgdata") }

func ports(a renderer.App) (postgres, rest int) {
	return a.Params.Int("port"), a.Params.Int("restapi_port")
}

// serverConfig is all that takes a new generation to change.
func serverConfig(a renderer.App) object {
	port, rest := ports(a)
	s := sortSettings(a.Params.Texts("postgresql"))
	return object{
		"scope":   scope(a),
		"restapi": object{"listen": fmt.Sprintf("0.0.0.0:%d", rest)},
		"bootstrap": object{
			"dcs": object{"postgresql": object{"use_pg_rewind": true, "parameters": s.shared}},
			// The byte order of C.UTF-8 is the same with every C library: indexes stay valid from image to image.
			"initdb": []any{object{"encoding": "UTF8"}, object{"locale": "C.UTF-8"}, "data-checksums"},
		},
		"postgresql": object{
			"listen":               fmt.Sprintf("0.0.0.0:%d", port),
			"data_dir":             dataDir(a),
			"bin_dir":              a.Params.String("bin_dir"),
			"pgpass":               socketDir + "/.pgpass", // in memory, as long as the instance runs
			"use_unix_socket":      true,
			"use_unix_socket_repl": true,
			"use_pg_rewind":        true,
			"parameters":           with(s.atStart, "unix_socket_directories", socketDir),
			"basebackup":           []any{object{"checkpoint": "fast"}},
		},
	}
}

func with(settings map[string]string, name, value string) map[string]string {
	settings[name] = value
	return settings
}

// hotConfig is what running servers read again.
func hotConfig(a renderer.App) object {
	return object{
		"bootstrap": object{"dcs": clusterConfig(a)},
		"postgresql": object{
			"parameters": sortSettings(a.Params.Texts("postgresql")).hot,
			"pg_hba":     accessRules(a),
		},
	}
}

// clusterConfig is the part of Patroni's cluster-wide configuration that changes in place. A cluster begins with it;
// later it is changed through Patroni's API.
func clusterConfig(a renderer.App) object {
	p := a.Params
	return object{
		"ttl":                     seconds(p.Duration("ttl")),
		"loop_wait":               seconds(p.Duration("loop_wait")),
		"retry_timeout":           seconds(p.Duration("retry_timeout")),
		"synchronous_mode":        p.Bool("synchronous") && a.Replicas > 1,
		"synchronous_mode_strict": p.Bool("synchronous_strict") && a.Replicas > 1,
		"synchronous_node_count":  p.Int("synchronous_node_count"),
		"failsafe_mode":           true,
		"member_slots_ttl":        seconds(p.Duration("member_slots_ttl")),
		"postgresql":              object{"parameters": sortSettings(p.Texts("postgresql")).sharedHot},
	}
}

func seconds(d time.Duration) int { return int(d / time.Second) }

// accessRules are the lines of pg_hba.conf. The first that fits counts.
func accessRules(a renderer.App) []string {
	rules := []string{
		"local all " + superuser + " peer",
		"local replication " + replicationUser + " scram-sha-256",
		"host replication " + replicationUser + " all scram-sha-256",
		"host postgres " + rewindUser + " all scram-sha-256",
	}
	if a.Params.Has("pg_hba") {
		return append(rules, a.Params.Strings("pg_hba")...)
	}
	return append(rules, "host all all all scram-sha-256")
}

// dcsConfig names etcd's members, by address: names would have to be resolved by whoever is in trouble.
func dcsConfig(a renderer.App) object {
	hosts := []string{}
	for _, m := range a.Upstreams["dcs"].Members {
		if m.Address != "" {
			hosts = append(hosts, net.JoinHostPort(m.Address, strconv.Itoa(a.Params.Int("dcs_port"))))
		}
	}
	return object{"etcd3": object{"hosts": hosts}}
}

// secretConfig holds the passwords. The one that rewinds a former leader is the one that replicates: both go from member
// to member only.
func secretConfig(a renderer.App) object {
	login := func(user, secret string) object { return object{"username": user, "password": a.Secrets[secret]} }
	config := object{"postgresql": object{"authentication": object{
		"superuser":   login(superuser, "superuser"),
		"replication": login(replicationUser, "replication"),
		"rewind":      login(rewindUser, "replication"),
	}}}
	if a.Secrets["restapi"] != "" {
		config["restapi"] = object{"authentication": login(restUser, "restapi")}
	}
	return config
}

// startConfig is what only a started instance knows.
func startConfig(a renderer.App, t renderer.Target) object {
	port, rest := ports(a)
	return object{
		"name":       t.Instance,
		"restapi":    object{"connect_address": net.JoinHostPort(t.Addresses[0], strconv.Itoa(rest))},
		"postgresql": object{"connect_address": net.JoinHostPort(t.Addresses[0], strconv.Itoa(port))},
	}
}

func checkDirectory(v any) error {
	if err := renderer.CheckPath(v.(string)); err != nil {
		return fmt.Errorf("is no directory: %w", err)
	}
	return nil
}

func checkRules(v any) error {
	for _, rule := range v.([]any) {
		words := append(strings.Fields(rule.(string)), "")
		switch words[0] {
		case "local", "host", "hostssl", "hostnossl", "hostgssenc", "hostnogssenc":
		default:
			return fmt.Errorf("has the line %q, which is not one of pg_hba.conf: it begins with local, host, hostssl or hostnossl", rule)
		}
		if strings.ContainsAny(rule.(string), "\r\n") {
			return fmt.Errorf("has a line break in %q", rule)
		}
	}
	return nil
}
