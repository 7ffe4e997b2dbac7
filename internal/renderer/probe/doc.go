// Package probe looks at instances for the App types. Which way it can look depends on where Terraform runs, so it finds
// a vantage for each port by trying: the server's port forward, this machine directly, or a command inside the instance.
// Every reason that it gives ends with the vantage it looked from.
package probe
