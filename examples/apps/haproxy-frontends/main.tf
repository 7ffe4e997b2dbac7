terraform {
  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}

provider "homelabops" {}

resource "homelabops_app" "web" {
  name     = "web"
  type     = "generic-stateless"
  image    = "web/1.0.0" # change it: the proxies follow, and no request fails
  replicas = 3
  health   = { http = { port = 8080, path = "/" } }
}

resource "homelabops_app" "proxy" {
  name      = "proxy"
  type      = "haproxy"
  image     = "haproxy/bookworm"
  version   = "2.6.12"
  replicas  = 2
  upstreams = { web = { app = homelabops_app.web.id } }

  params = {
    stats_port = 8404
    frontends = [{
      name          = "web"
      port          = 80
      upstream      = "web"
      upstream_port = 8080
      balance       = "leastconn"
      sticky        = true
      check         = { type = "http", path = "/" }
    }]
  }

  # an address that is routed to the server, and that no instance has
  endpoint = { listen_address = "203.0.113.7", ports = [{ listen = 80 }] }
}
