terraform {
  required_version = ">= 1.11" # for secrets that are in no state

  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}

provider "homelabops" {}

variable "passwords" {
  description = "Passwords of the superuser and of the replication."
  type        = object({ superuser = string, replication = string })
  ephemeral   = true
  default     = { superuser = "change-me", replication = "change-me-too" }
}

resource "homelabops_app" "dcs" {
  name     = "dcs"
  type     = "etcd"
  image    = "etcd/trixie"
  replicas = 1 # three of them bear the loss of one
}

resource "homelabops_app" "db" {
  name     = "db"
  type     = "postgres"
  image    = "postgres/trixie"
  replicas = 2

  upstreams = { dcs = { app = homelabops_app.dcs.id } }
  volumes   = { data = { path = "/var/lib/postgresql/data", size = "2GiB" } }
  params    = { postgresql = { max_connections = "50" } }

  secrets_wo         = var.passwords
  secrets_wo_version = 1
}
