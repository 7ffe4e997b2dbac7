data "homelabops_server" "this" {}

output "mode" {
  value = data.homelabops_server.this.mode # "cluster" or "standalone"
}

output "shared_pools" {
  value = [for pool in data.homelabops_server.this.pools : pool.name if pool.reach == "every-node"]
}
