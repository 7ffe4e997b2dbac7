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

# All nodes, whatever their status: a node that is away keeps its member.
data "homelabops_nodes" "all" {}

# A node that joins the cluster is one addition in the next plan, one that has left is one removal. The same configuration
# makes a single agent on a standalone server.
resource "homelabops_app" "scout" {
  name          = "scout"
  type          = "agent"
  image         = var.image
  replicas      = "per-node"
  nodes         = data.homelabops_nodes.all.names
  offline_nodes = "skip"

  params = { heartbeat_max_age = "10s" }

  per_member = {
    for node in data.homelabops_nodes.all.nodes : node.name => {
      environment = { SCOUT_ARCHITECTURE = node.architecture }
    }
  }
}

output "nodes" {
  value = { for key, member in homelabops_app.scout.members : key => member.node }
}
