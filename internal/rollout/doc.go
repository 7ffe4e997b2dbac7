// Package rollout is the engine: it observes what Incus shows of an App, decides what to do (purely), and does it: create
// a candidate beside what runs, gate it on sustained health, promote it or go back.
package rollout
