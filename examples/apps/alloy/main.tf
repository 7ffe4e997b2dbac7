terraform {
  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}

provider "homelabops" {}

variable "image" {
  description = "An image that has Grafana Alloy and starts it. The default is the lab's stand-in for it."
  default     = "alloy-standin/1.0.0"
}

resource "homelabops_app" "telemetry" {
  name     = "telemetry"
  type     = "alloy"
  image    = var.image
  replicas = 1

  params = {
    config = <<-EOT
      logging {
        level = "info"
      }

      prometheus.exporter.unix "node" {
      }
    EOT
  }
}
