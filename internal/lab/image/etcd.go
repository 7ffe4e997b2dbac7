package image

// etcd is Debian's, run by the user etcd with its data in /var/lib/etcd, once it has a configuration.
func etcd(suite string) Recipe {
	return Recipe{
		Name: "etcd", Suite: suite, Packages: []string{"etcd-server", "etcd-client"}, Description: "etcd of Debian " + suite, OnDemand: true,
		Users:       []User{{Name: "etcd", ID: 102, Home: "/var/lib/etcd"}},
		Directories: []Directory{{Path: "/var/lib/etcd", User: 102, Mode: 0o700}, {Path: "/etc/etcd", Mode: 0o755}},
		Service:     etcdService,
		StopSignal:  "TERM",
	}
}

// etcdService never starts etcd without a configuration: it would form a cluster of its own. The data's folder is root's
// where a volume is mounted on it.
const etcdService = `#!/bin/sh
until [ -s /etc/etcd/etcd.yaml ]; do usleep 100000; done
chown etcd:etcd /var/lib/etcd
chmod 700 /var/lib/etcd
exec su -s /bin/sh etcd -c 'exec etcd --config-file /etc/etcd/etcd.yaml' >>/var/log/etcd.log 2>&1
`
