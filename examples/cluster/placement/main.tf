terraform {
  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}

provider "homelabops" {
  # The one node of this cluster group manages the cluster.
  manager_group = "manager"
}

variable "image" {
  default = "web/1.0.0"
}

# Two members, spread over the nodes of a cluster group.
resource "homelabops_app" "web" {
  name          = "web"
  type          = "generic-stateless"
  image         = var.image
  replicas      = 2
  cluster_group = "web"
  health        = { http = { port = 8080 } }
}

# Kept on the manager: an App that opts out of the cluster.
resource "homelabops_app" "console" {
  name            = "console"
  type            = "generic-stateless"
  image           = var.image
  replicas        = 1
  deployment_mode = "standalone"
  health          = { http = { port = 8080 } }
}

output "nodes" {
  value = { for key, member in homelabops_app.web.members : key => member.node }
}
