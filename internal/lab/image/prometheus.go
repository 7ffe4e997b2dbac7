package image

// prometheus is Debian's, started as its package does: with the ARGS of /etc/default/prometheus, as the user prometheus.
func prometheus(suite string) Recipe {
	return Recipe{
		Name: "prometheus", Suite: suite, Packages: []string{"prometheus"}, Description: "Prometheus of Debian " + suite,
		Users:       []User{{Name: "prometheus", ID: 101, Home: "/var/lib/prometheus"}},
		Directories: []Directory{{Path: "/var/lib/prometheus", User: 101, Mode: 0o755}},
		Service:     prometheusService + "exec su -s /bin/sh prometheus -c \"set -f; exec prometheus $ARGS\"\n",
		StopSignal:  "TERM",
	}
}

// brokenPrometheus is a release that is bad in the worst way: it first wrecks the data that it finds, then doesn't start.
func brokenPrometheus() Recipe {
	recipe := prometheus("trixie")
	recipe.Version, recipe.Description = "broken", "Prometheus that wrecks its data and doesn't start"
	recipe.Service = prometheusService + "find \"$data\" -type f -exec sh -c 'echo wrecked >\"$1\"' sh {} \\;\n" +
		"exec su -s /bin/sh prometheus -c \"set -f; exec prometheus --no.such-flag $ARGS\"\n"
	return recipe
}

// prometheusService reads ARGS and gives the folder of the data, which is root's where a volume is mounted on it, to the user.
const prometheusService = `#!/bin/sh
set -f
. /etc/default/prometheus
data=/var/lib/prometheus
for arg in $ARGS; do
	case $arg in --storage.tsdb.path=*) data=${arg#*=} ;; esac
done
chown prometheus:prometheus "$data"
`
