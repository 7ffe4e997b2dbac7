output "writer" {
  description = "Where to write: the endpoint, or the proxies' own addresses."
  value       = [for host in local.hosts : "${host}:${var.ports.writer}"]
}

output "readers" {
  description = "Where to read."
  value       = [for host in local.hosts : "${host}:${var.ports.readers}"]
}

output "members" {
  description = "The members of the three Apps."
  value = {
    dcs   = homelabops_app.dcs.members
    db    = homelabops_app.db.members
    proxy = homelabops_app.proxy.members
  }
}

locals {
  hosts = var.endpoint == null ? [for m in homelabops_app.proxy.members : m.ipv4] : [var.endpoint.listen_address]
}
