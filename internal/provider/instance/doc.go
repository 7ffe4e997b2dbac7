// Package instance is the resource homelabops_instance: one machine, container or virtual machine, that keeps its name. It
// is made and changed by the same engine as an App, as an App of one member whose instance has the App's own name.
package instance
