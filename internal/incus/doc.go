// Package incus is a typed client for the Incus REST API, in Incus's own terms. It is the only package that knows HTTP
// or Incus's JSON.
package incus
