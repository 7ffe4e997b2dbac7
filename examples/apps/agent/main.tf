terraform {
  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}

provider "homelabops" {}

variable "image" {
  description = "An image that has the agent and starts it."
  default     = "agent/1.0.0"
}

data "homelabops_nodes" "all" {}

# One agent on each node. It finds its node's name in AGENT_NODE_NAME.
resource "homelabops_app" "scout" {
  name     = "scout"
  type     = "agent"
  image    = var.image
  replicas = "per-node"
  nodes    = data.homelabops_nodes.all.names

  params = {
    heartbeat_path    = "/run/homelab-ops/heartbeat"
    heartbeat_max_age = "10s"
  }
}
