terraform {
  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}

provider "homelabops" {}

variable "image" {
  description = "An image that starts a service of your own on port 8080."
  default     = "web/1.0.0"
}

resource "homelabops_app" "shop" {
  name        = "shop"
  type        = "generic-stateless"
  description = "The shop's front end"
  image       = var.image
  replicas    = 2

  environment = { LOG_LEVEL = "info" }
  files       = { "/etc/shop/settings.json" = { content = jsonencode({ currency = "EUR" }), mode = "0640" } }
  limits      = { memory = "128MiB" }
  health      = { http = { port = 8080, path = "/", status = [200] }, interval = "1s" }
}

output "instances" {
  value = [for member in homelabops_app.shop.members : member.instance]
}
