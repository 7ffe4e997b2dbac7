// Package renderer is the contract between the engine and the App types: what a type makes of an App (Desired), when an
// instance is healthy (Healthy) and how it becomes authoritative (Promote). One package per App type implements it; the
// engine knows no type by name.
package renderer
