package image

// postgres is Debian's PostgreSQL of a major release, run by Debian's Patroni as the user postgres, once that has a
// configuration. Patroni reads all of /etc/patroni; patroni.yml is the file that it waits for.
func postgres(suite, major string) Recipe {
	programs := "/usr/lib/postgresql/" + major + "/bin"
	recipe := Recipe{
		Name: "postgres", Suite: suite, Packages: []string{"postgresql-" + major, "patroni", "python3-etcd", "libc-bin", "libpam0g", "libaudit1"},
		Description: "PostgreSQL with Patroni, of Debian " + suite, OnDemand: true,
		// Compilers for queries are half of the size, and Debian's wrappers are in Perl.
		Without: []string{
			"libllvm*", "libz3-4", "locales", "libc-l10n", "postgresql-common*", "postgresql-client-common", "ssl-cert", "openssl",
			"usrmerge", "*-perl", "procps",
		},
		Remove: []string{
			"usr/lib/postgresql/*/lib/llvmjit*", "usr/lib/postgresql/*/lib/bitcode", "etc/patroni/*", // examples, which Patroni would read
		},
		Users: []User{{Name: "postgres", ID: 105, Home: "/var/lib/postgresql"}},
		Directories: []Directory{
			{Path: "/var/lib/postgresql", User: 105, Mode: 0o755}, {Path: "/var/lib/postgresql/data", User: 105, Mode: 0o700},
			{Path: "/etc/patroni", Mode: 0o755},
		},
		Links:      map[string]string{"/usr/lib/postgresql/bin": major + "/bin"},
		Service:    postgresService,
		StopSignal: "TERM",
	}
	for _, program := range []string{"psql", "pg_isready", "pg_controldata", "pg_ctl", "pg_dump"} {
		recipe.Links["/usr/bin/"+program] = programs + "/" + program
	}
	return recipe
}

// postgresService gives the data's folder, which is root's where a volume is mounted on it, to the user. Patroni stops
// PostgreSQL and gives up its leadership before it ends. Without /dev/shm, which nobody mounts otherwise, Python has no
// semaphores, and then Patroni neither switches over nor fails over.
const postgresService = `#!/bin/sh
until [ -s /etc/patroni/patroni.yml ]; do usleep 100000; done
if ! grep -q " /dev/shm " /proc/mounts; then # once a boot: PostgreSQL outlives a Patroni that is killed
	mkdir -p /dev/shm
	mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs /dev/shm
	rm -rf /run/postgresql # locks of an earlier boot
fi
mkdir -p /run/postgresql
chown postgres:postgres /run/postgresql /var/lib/postgresql /var/lib/postgresql/data
chmod 700 /var/lib/postgresql/data
cd /var/lib/postgresql
exec su -s /bin/sh postgres -c 'exec patroni /etc/patroni' >>/var/log/patroni.log 2>&1
`
