terraform {
  required_providers {
    homelabops = {
      source = "homelabops/homelabops"
    }
  }
}

# The Incus on this machine, through its local socket.
provider "homelabops" {}

# One elsewhere: everything here can come from HOMELABOPS_* variables instead.
provider "homelabops" {
  alias              = "rack"
  address            = "https://192.0.2.10:8443"
  client_certificate = "/etc/homelabops/client.crt"
  client_key         = "/etc/homelabops/client.key"
  server_certificate = "/etc/homelabops/server.crt"
  project            = "default"
}
