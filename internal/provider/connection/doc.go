// Package connection is what the provider's configuration becomes: the one client and engine that all of its objects
// share, and the words for what can go wrong between here and the server.
package connection
