// Package app has the words of the domain as types: App, Member, Replicas, Class, generations, names, tags.
// It is pure: no I/O, no clock, and nothing of ours imported.
package app
