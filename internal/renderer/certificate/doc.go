// Package certificate gives each instance a TLS certificate of its own, in the instance's name and signed by a CA that the
// user gives. An App type offers it as a parameter, adds the CA's certificate to its Spec, and issues the rest through
// renderer.Issuer: the key is made for one instance and is nowhere but in that instance's files.
package certificate
