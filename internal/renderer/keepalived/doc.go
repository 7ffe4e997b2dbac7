// Package keepalived gives the members of an App one address by VRRP (RFC 5798): keepalived in each instance, of which one
// has the address at a time. App types whose image brings keepalived embed it.
package keepalived
