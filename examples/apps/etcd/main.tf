terraform {
  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}

provider "homelabops" {}

variable "image" {
  description = "An image that starts etcd with /etc/etcd/etcd.yaml, as soon as that is there."
  default     = "etcd/trixie"
}

resource "homelabops_app" "dcs" {
  name     = "dcs"
  type     = "etcd"
  image    = var.image
  replicas = 3 # one of them may fail

  # Each generation of a member gets a volume of its own, and the data from the other members.
  volumes = { data = { path = "/var/lib/etcd", size = "1GiB" } }

  params = {
    auto_compaction     = "1h"
    quota_backend_bytes = 536870912
  }
}

output "endpoints" {
  value = join(",", [for m in homelabops_app.dcs.members : "http://${m.ipv4}:2379"])
}
