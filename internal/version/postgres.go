package version

// postgres is PostgreSQL. Its major version is the first number since 10, the first two before; everything behind is a
// minor release (postgresql.org, "Versioning Policy"). The on-disk format may change between betas.
var postgres = scheme{major: postgresMajor, minor: 99, noun: "major version", strictPre: true, step: postgresStep}

func postgresMajor(v Version) int {
	if v.Number(0) >= 10 {
		return 1
	}
	return 2
}

// postgresStep holds to the major version: physical replication and the data directory are of one. Within it, "minor
// releases never change the internal storage format and are always compatible with earlier and later minor releases"
// (PostgreSQL's manual, "Upgrading a PostgreSQL Cluster"), so that going back is possible too.
func postgresStep(from, to Version) Verdict {
	const wayOut = "Make a new App of the new version, bring the data over by dump and restore or by logical replication, and then lead what uses it there; an upgrade in place by pg_upgrade is not offered"
	f, t := from.Series(postgresMajor(from)), to.Series(postgresMajor(to))
	switch {
	case f != t:
		return refuse(wayOut, "replication can't cross PostgreSQL's major versions, and PostgreSQL %s can't open the data of %s", t, f)
	case from.compareSoftware(to) != 0 && (from.Prerelease() || to.Prerelease()):
		return refuse(wayOut, "PostgreSQL's pre-releases don't share a data format with each other or with their release: %s → %s", from, to)
	case to.compareSoftware(from) < 0:
		// The manual's "Log-Shipping Standby Servers", "Planning": a new minor release is more likely to be able to read
		// the log of an older one than the other way round. Replicas move first.
		return allowWith("%s is older than %s: the data is compatible, but until the leader has moved too, an older replica may fail to read what the newer leader writes", to, from)
	}
	return allowed
}
