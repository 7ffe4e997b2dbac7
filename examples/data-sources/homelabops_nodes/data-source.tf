data "homelabops_nodes" "online" {
  status = "online"
}

output "nodes" {
  value = data.homelabops_nodes.online.names
}
