// Package nodes is the data source homelabops_nodes.
package nodes
