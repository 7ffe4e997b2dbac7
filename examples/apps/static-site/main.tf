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

resource "homelabops_app" "docs" {
  name     = "docs"
  type     = "static-site"
  image    = var.image
  replicas = 2

  params = {
    ipv6 = false
    content = {
      "index.html"     = "<link rel=stylesheet href=/css/site.css><h1>Handbook</h1>"
      "css/site.css"   = "h1 { font-family: serif }"
      "faq/index.html" = "<h1>Questions</h1>"
    }
  }
}
