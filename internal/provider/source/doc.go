// Package source is the frame that all data sources have in common.
package source
