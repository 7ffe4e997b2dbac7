// Package app is the resource homelabops_app. What it plans is worked out by package rollout from configuration and prior
// state alone; what it applies is done by the same package's engine.
package app
