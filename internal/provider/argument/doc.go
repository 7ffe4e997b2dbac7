// Package argument is what users write on more than one resource: the schema of such an argument, and how it is read and
// checked. What it reads may be known in part only, and is taken from the configuration alone, so that the same
// configuration always reads the same.
package argument
