// Package typepage writes the documentation page of an App type from the type's own specification.
package typepage

//go:generate go run ./write
