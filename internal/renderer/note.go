package renderer

import (
	"slices"
	"strings"
)

// seeds are the user.* keys that cloud-init reads when a machine first starts (its older names for cloud-init.*): another
// value reaches a new instance only.
var seeds = []string{"user.meta-data", "user.network-config", "user.user-data", "user.vendor-data"}

// IsNote tells whether an Incus key only notes something on an instance, for whoever reads it: it is written while the
// instance runs, and what others have noted is theirs.
func IsNote(key string) bool {
	return strings.HasPrefix(key, "user.") && !slices.Contains(seeds, key)
}
