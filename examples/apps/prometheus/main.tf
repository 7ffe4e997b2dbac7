terraform {
  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}

provider "homelabops" {}

variable "image" {
  description = "An image that starts Prometheus as Debian's package does."
  default     = "prometheus/bookworm"
}

resource "homelabops_app" "metrics" {
  name     = "metrics"
  type     = "prometheus"
  image    = var.image
  replicas = 1

  # The time series outlive every update, and the App itself.
  volumes = { data = { path = "/var/lib/prometheus", size = "1GiB" } }

  params = {
    retention = "30d"
    config    = <<-EOT
      global:
        scrape_interval: 30s
      scrape_configs:
        - job_name: prometheus
          static_configs:
            - targets: ["localhost:9090"]
    EOT
  }

  # An update stops the old one before the new one starts: two can't run on the same data.
  rollout = { allow_downtime = true }
}

output "address" {
  value = "http://${homelabops_app.metrics.members["0"].ipv4}:9090"
}
