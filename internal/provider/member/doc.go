// Package member is what the provider shows of each of an App's slots: as observed, as a plan will leave it, and as a run
// has left it.
package member
