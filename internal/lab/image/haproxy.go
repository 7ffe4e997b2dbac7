package image

// haproxy starts as soon as it has a configuration that it accepts. Its master reloads on SIGUSR2; its process id is in
// /run/haproxy.pid. Beside it keepalived holds a virtual address, once that has a configuration.
//
// The keepalived of Debian is linked with an agent for SNMP, and that with perl, so it needs the library and nothing else
// of both. Where no version of perl is given there is no keepalived: in a suite that is no release yet perl moves on.
func haproxy(suite, perl string) Recipe {
	r := Recipe{
		Name: "haproxy", Suite: suite, Packages: []string{"haproxy"}, Description: "haproxy of Debian " + suite,
		Users: []User{{Name: "haproxy", ID: 100, Home: "/var/lib/haproxy"}},
		Directories: []Directory{
			{Path: "/var/lib/haproxy", Mode: 0o755}, {Path: "/run/haproxy", Mode: 0o755}, {Path: "/etc/keepalived", Mode: 0o755},
		},
		Service: "#!/bin/sh\nmkdir -p /run/haproxy\n" +
			"exec haproxy -W -db -S /run/haproxy-master.sock -p /run/haproxy.pid -f /etc/haproxy/haproxy.cfg\n",
		StopSignal: "USR1",
	}
	if perl != "" {
		r.Packages = append(r.Packages, "keepalived", "libperl"+perl)
		r.Description = "haproxy with keepalived, of Debian " + suite
		r.Remove = []string{"usr/lib/*/perl", "usr/lib/*/perl-base", "usr/share/perl*", "usr/share/snmp", "usr/share/misc/pci.ids"}
		r.Companion = keepalivedCompanion
	}
	return r
}

// keepalivedCompanion gives the virtual address to another keepalived before haproxy stops to answer there. SIGHUP to the
// process in /run/keepalived.pid reloads the configuration. A file with the process id of an earlier boot would keep
// keepalived from starting; of two in one boot there is no danger, since its child ends with it.
const keepalivedCompanion = `#!/bin/sh
case $1 in
start)
	until [ -s /etc/keepalived/keepalived.conf ]; do usleep 100000; done
	rm -f /run/keepalived.pid /run/keepalived-vrrp.pid
	exec keepalived --dont-fork --log-console --pid=/run/keepalived.pid --vrrp_pid=/run/keepalived-vrrp.pid >>/var/log/keepalived.log 2>&1
	;;
stop)
	pid=$(cat /run/keepalived.pid 2>/dev/null) || exit 0
	kill -s TERM "$pid" 2>/dev/null
	while kill -0 "$pid" 2>/dev/null; do usleep 10000; done
	;;
esac
`
