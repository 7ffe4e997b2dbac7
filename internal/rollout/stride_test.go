package rollout_test

import "os"

// stride is how many calls apart the fault tables strike, and at which one they begin. By default they strike at some, at
// others in each table; `make torture` has them strike at every call.
func stride(table int) (first, apart int) {
	if os.Getenv("TORTURE") != "" {
		return 1, 1
	}
	return 1 + table%5, usualStride
}
