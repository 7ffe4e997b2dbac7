// Package incustest is an in-memory Incus for tests, with scripted faults, and the contract tests that keep it honest:
// RunContract runs against it and against a real server.
//
// It answers the part of the REST API that package incus uses, with the status codes and the texts that Incus 6.0 was
// seen to answer.
package incustest
