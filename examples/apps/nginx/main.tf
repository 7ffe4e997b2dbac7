terraform {
  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}

provider "homelabops" {}

variable "image" {
  description = "An image that has nginx and starts it."
  default     = "nginx/bookworm"
}

resource "homelabops_app" "proxy" {
  name     = "proxy"
  type     = "nginx"
  image    = var.image
  replicas = 2

  params = {
    port = 8080
    sites = {
      default = <<-EOT
        server {
          listen 8080 default_server;
          location / {
            return 200 "hello from nginx\n";
          }
        }
      EOT
    }
  }
}
