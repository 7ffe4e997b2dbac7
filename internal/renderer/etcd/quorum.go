package etcd

import "fmt"

// quorum is how many of some voters must agree.
func quorum(voters int) int { return voters/2 + 1 }

// count says a number of things.
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
