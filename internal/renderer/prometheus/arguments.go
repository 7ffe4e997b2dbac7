package prometheus

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// arguments are the command line of an App's Prometheus
// (https://prometheus.io/docs/prometheus/latest/command-line/prometheus/).
func arguments(a renderer.App) []string {
	data, _ := a.Volume(Volume)
	ours := []string{
		"--config.file=" + Path,
		"--storage.tsdb.path=" + data.Path,
		"--storage.tsdb.retention.time=" + a.Params.String("retention"),
		fmt.Sprintf("--web.listen-address=:%d", a.Params.Int("port")),
		"--web.enable-lifecycle",
	}
	return append(ours, a.Params.Strings("args")...)
}

// argumentsFile is what Debian's service reads, as systemd does (EnvironmentFile in systemd.exec(5)) or as a shell does:
// one variable, which is split at its spaces.
func argumentsFile(arguments []string) string {
	return "# Written by homelabops. Changes are overwritten.\nARGS=\"" + strings.Join(arguments, " ") + "\"\n"
}

// plain tells whether a text is the same to systemd and to a shell, within double quotes and split at spaces.
func plain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune("\"'`\\$", r)
	})
}

// setBy are the arguments that come from elsewhere, and from where.
var setBy = map[string]string{
	"--config.file": "the type sets it", "--web.enable-lifecycle": "the type sets it", "--web.listen-address": "set port",
	"--storage.tsdb.path": "it is the path of volume data", "--storage.tsdb.retention.time": "set retention", "--storage.tsdb.retention": "set retention",
}

func checkArgs(v any) error {
	for _, item := range v.([]any) {
		arg := item.(string)
		name, _, _ := strings.Cut(arg, "=")
		why, taken := setBy[strings.Replace(name, "--no-", "--", 1)]
		switch {
		case !strings.HasPrefix(arg, "--") || !plain(arg):
			return fmt.Errorf("has %q: write each argument as \"--name=value\", without spaces, quotes, backslashes and dollar signs", arg)
		case taken:
			return fmt.Errorf("has %q: leave it out, %s", arg, why)
		}
	}
	return nil
}

// retention is how Prometheus writes durations: units from the largest to the smallest, each once at most (ParseDuration
// in github.com/prometheus/common/model).
var retention = regexp.MustCompile(`^([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$`)

// retentionPart is a number and its unit, retentionUnits what the units are in days.
var (
	retentionPart  = regexp.MustCompile(`([0-9]+)([a-z]+)`)
	retentionUnits = map[string]float64{"y": 365, "w": 7, "d": 1, "h": 1. / 24, "m": 1. / 1440, "s": 1. / 86400, "ms": 1. / 86400_000}
)

// retentionMost is short of what Prometheus can count, in days: it does not start with more.
const retentionMost = 290 * 365

func checkRetention(v any) error {
	text := v.(string)
	days := 0.
	for _, part := range retentionPart.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseFloat(part[1], 64) // of digits; infinite where there are too many
		days += n * retentionUnits[part[2]]
	}
	if !retention.MatchString(text) || days == 0 || days > retentionMost {
		return errors.New(`must be how long to keep time series, such as "30d", "1y" or "1d12h", and at most "290y"`)
	}
	return nil
}
