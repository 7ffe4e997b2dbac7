terraform {
  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}

provider "homelabops" {}

variable "image" {
  description = "Change it and apply again: no request fails."
  default     = "web/1.0.0"
}

variable "listen_address" {
  description = "An address that is routed to the Incus server and that nothing else uses."
  default     = "203.0.113.7"
}

resource "homelabops_app" "web" {
  name     = "web"
  type     = "generic-stateless"
  image    = var.image
  replicas = 2
  health   = { http = { port = 8080, path = "/" } }
  endpoint = { listen_address = var.listen_address, ports = [{ listen = 80, target = 8080 }] }
}

output "url" {
  value = replace(homelabops_app.web.endpoints[0], "tcp://", "http://")
}

output "how" {
  value = homelabops_app.web.rollout_plan.steps
}
