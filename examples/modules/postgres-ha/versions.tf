terraform {
  required_version = ">= 1.11" # for secrets that are in no state

  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}
