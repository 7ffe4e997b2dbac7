terraform {
  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}

provider "homelabops" {}

variable "image" {
  description = "An image that has haproxy and starts it."
  default     = "haproxy/bookworm"
}

resource "homelabops_app" "lb" {
  name     = "lb"
  type     = "haproxy"
  image    = var.image
  replicas = 1

  params = {
    stats_port = 8404
    config     = <<-EOT
      global
        maxconn 1000

      defaults
        mode http
        timeout connect 5s
        timeout client 30s
        timeout server 30s

      frontend web
        bind *:8080
        http-request return status 200 content-type text/plain string "hello from haproxy"
    EOT
  }
}
