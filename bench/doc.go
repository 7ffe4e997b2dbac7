// Package bench measures what an App costs beside the bare cost of the same instances: the provider under a real
// Terraform CLI on one side, instances launched through the API without us on the other, in one run on one real Incus.
package bench
