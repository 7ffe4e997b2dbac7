package version

// prometheus follows semantic versioning. What it limits is the way back to an older release on the same time series.
var prometheus = scheme{major: leading(1), minor: 2, noun: "major version", step: prometheusStep}

// prometheusStep: "a Prometheus v3 TSDB can only be read by a Prometheus v2.55 or newer" (Prometheus' "3.0 migration guide"),
// and by 2.53 from 2.53.5 on, into which that was ported.
func prometheusStep(from, to Version) Verdict {
	switch {
	case from.Number(0) >= 3 && !reads3(to):
		return refuse("Take 2.55, or 2.53.5 or a later release of 2.53; or make a new App of it with a volume of its own",
			"Prometheus %s can't read time series that Prometheus 3 has written", to)
	case to.Number(0) >= 3 && !reads3(from):
		return allowWith("%s may not be able to read what %s writes: once this is through, the way back is to 2.55, or to 2.53.5 or a later release of 2.53", from, to)
	}
	return allowed
}

// reads3 tells whether a release reads time series that Prometheus 3 has written.
func reads3(v Version) bool {
	return v.Number(0) >= 3 || v.Number(0) == 2 && (v.Number(1) >= 55 || v.Number(1) == 53 && v.Number(2) >= 5)
}
