package haproxy

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// frontendParams is what one entry of frontends takes.
var frontendParams = []renderer.Param{
	{Name: "name", Kind: renderer.String, Required: true, Check: checkName, Description: "Name of the frontend in haproxy's statistics and logs. Its backend has `.servers` behind it."},
	{Name: "port", Kind: renderer.Port, Required: true, Description: "Port that it listens on."},
	{Name: "mode", Kind: renderer.String, Default: "http", Check: oneOf("http", "tcp"), Description: "`http` or `tcp`."},
	{Name: "upstream", Kind: renderer.String, Required: true, Description: "Name of one of the App's `upstreams`: its members are the servers."},
	{Name: "upstream_port", Kind: renderer.Port, Description: "Port of the upstream's members. Default: `port`."},
	{Name: "balance", Kind: renderer.String, Default: "roundrobin", Check: oneOf("roundrobin", "leastconn", "source"), Description: "How a server is chosen: `roundrobin`, `leastconn` or `source` (by the client's address)."},
	{Name: "weights", Kind: renderer.Texts, Check: checkWeights, Description: "Weights from 0 to 256 of single members of the upstream, by ordinal or node. Default: 1 for each."},
	{Name: "sticky", Kind: renderer.Bool, Default: false, Description: "A client stays with the member it has: by a cookie in mode `http`, which outlives the member's generations, and by its address in mode `tcp`, until haproxy is reloaded."},
	{Name: "timeout", Kind: renderer.Duration, Check: between(time.Millisecond), Description: "How long a connection may say nothing. Default: `1m` in mode `http`, `1h` in mode `tcp`."},
	{Name: "check", Kind: renderer.Object, Default: map[string]any{}, Fields: checkFields, Description: "When a member gets connections. Default: its port accepts one."},
}

var checkFields = []renderer.Param{
	{Name: "type", Kind: renderer.String, Default: "tcp", Check: oneOf("tcp", "http", "patroni"), Description: "`tcp` connects; `http` asks for `path`; `patroni` asks Patroni for the member's role, so that the port leads to the writer, or to the readers, whoever they are."},
	{Name: "path", Kind: renderer.String, Default: "/", Check: checkURLPath, Description: "Of `http`: healthy where a GET answers with a status from 200 to 399."},
	{Name: "role", Kind: renderer.String, Default: "primary", Check: oneOf("primary", "replica"), Description: "Of `patroni`: `primary` for the writer, of which there is one, or `replica` for the readers."},
	{Name: "port", Kind: renderer.Port, Description: "Port that is asked. Default: `upstream_port`, and 8008 for `patroni`."},
	{Name: "interval", Kind: renderer.Duration, Default: "500ms", Check: between(50 * time.Millisecond), Description: "Time between two checks."},
	{Name: "timeout", Kind: renderer.Duration, Default: "2s", Check: between(50 * time.Millisecond), Description: "How long a member that has accepted the connection of a check may take to answer. One that doesn't accept it within `interval` fails at once."},
	{Name: "fall", Kind: renderer.Int, Default: 2, Check: checkCount, Description: "Failures in a row that take a member out. Always 1 for a `patroni` primary."},
	{Name: "rise", Kind: renderer.Int, Default: 1, Check: checkCount, Description: "Successes in a row that bring it back."},
}

var frontendName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,62}$`)

func checkName(v any) error {
	switch name := v.(string); {
	case !frontendName.MatchString(name):
		return errors.New("must begin with a letter and hold letters, digits, dashes and underscores only")
	case name == statsFrontend:
		return errors.New("is the name of the frontend that stats_port adds")
	}
	return nil
}

var urlPath = regexp.MustCompile(`^/[A-Za-z0-9/._~%?=&+,:@-]*$`)

func checkURLPath(v any) error {
	if !urlPath.MatchString(v.(string)) {
		return errors.New(`must be a path such as "/ready?full=1", without spaces or quotes`)
	}
	return nil
}

func oneOf(words ...string) func(any) error {
	return func(v any) error {
		for _, word := range words {
			if v.(string) == word {
				return nil
			}
		}
		return fmt.Errorf("must be one of %q", words)
	}
}

func checkWeights(v any) error {
	for member, text := range v.(map[string]any) {
		if n, err := strconv.Atoi(text.(string)); err != nil || n < 0 || n > 256 {
			return fmt.Errorf("gives member %q the weight %q: weights are whole numbers from 0 to 256", member, text)
		}
	}
	return nil
}

func checkCount(v any) error {
	if n := v.(int64); n < 1 || n > 100 {
		return errors.New("must be from 1 to 100")
	}
	return nil
}

// longest is the longest time that haproxy takes: its milliseconds are a number of 31 bits.
const longest = math.MaxInt32 * time.Millisecond

func between(least time.Duration) func(any) error {
	return func(v any) error {
		if d := (renderer.Params{"d": v}).Duration("d"); d < least || d > longest {
			return fmt.Errorf("must be %s or more, and not more than 596h", least)
		}
		return nil
	}
}

// checkAsked refuses what a check of its type makes nothing of: a port for readers that asks for no role leads to the writer too.
func checkAsked(f renderer.Params) error {
	name, check := f.String("name"), f.Object("check")
	kind := check.String("type")
	switch {
	case kind != "patroni" && check.String("role") != "primary":
		return fmt.Errorf("frontend %q has check.role, and its check is of type %q, which asks for no role: add type = \"patroni\"", name, kind)
	case kind != "http" && check.String("path") != "/":
		return fmt.Errorf("frontend %q has check.path, and its check is of type %q, which asks for no path: add type = \"http\"", name, kind)
	case kind == "patroni" && f.String("mode") != "tcp":
		return fmt.Errorf("frontend %q leads to PostgreSQL, which does not speak HTTP: add mode = \"tcp\"", name)
	}
	return nil
}
