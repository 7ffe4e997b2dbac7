// Package server is the data source homelabops_server.
package server
