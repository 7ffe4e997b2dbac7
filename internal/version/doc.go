// Package version reads versions and image references as people write them, and tells by an App type's own rules what
// kind of change leads from one version to another. It is pure.
package version
