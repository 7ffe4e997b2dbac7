// Package provider is the Terraform provider homelabops: its configuration, and one package for each of its objects.
package provider
