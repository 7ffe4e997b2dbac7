// Package function has the provider's functions. They are pure: they ask no server.
package function
