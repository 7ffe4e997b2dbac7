// Package outcome is what the provider shows of a run of the engine, before and after: its plan, its end, and what private
// state keeps of what was observed.
package outcome
