resource "homelabops_app" "web" {
  name     = "web"
  type     = "generic-stateless"
  image    = "web/1.0.0"
  replicas = 3

  environment = { LOG_LEVEL = "info" }
  limits      = { cpu = "1", memory = "256MiB" }

  health   = { http = { port = 8080, path = "/" } }
  endpoint = { listen_address = "203.0.113.7", ports = [{ listen = 80, target = 8080 }] }
  rollout  = { min_healthy_time = "10s", healthy_deadline = "5m", settle_time = "5s" }
}

# One member on each node that is online.
data "homelabops_nodes" "online" {
  status = "online"
}

resource "homelabops_app" "everywhere" {
  name     = "everywhere"
  type     = "static-site"
  image    = "nginx/bookworm"
  replicas = "per-node"
  nodes    = data.homelabops_nodes.online.names
  params   = { content = { "index.html" = "<h1>Hello</h1>" }, ipv6 = false }
}
