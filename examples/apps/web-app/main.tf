terraform {
  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}

provider "homelabops" {}

variable "image" {
  description = "An image that starts a web application which keeps its data below $STORE_PATH and answers on $PORT."
  default     = "notes/1.0.0"
}

resource "homelabops_app" "notes" {
  name     = "notes"
  type     = "web-app"
  image    = var.image
  replicas = 1

  volumes = { data = { path = "/var/lib/app", size = "1GiB" } }
  params  = { store_path = "/var/lib/app", port = 8080 }

  # An update stops the old one before the new one starts. One that spoils the data is taken back, with the data as it was.
  rollout = { allow_downtime = true }
}

output "address" {
  value = "http://${homelabops_app.notes.members["0"].ipv4}:8080"
}
