# An App of another configuration, or, as here, of this one: its members as they are now.
data "homelabops_app" "web" {
  name       = "web"
  depends_on = [homelabops_app.web] # not for one of another configuration
}

resource "homelabops_app" "web" {
  name     = "web"
  type     = "generic-stateless"
  image    = "web/1.0.0"
  replicas = 2
  health   = { http = { port = 8080 } }
}

output "members" {
  value = { for key, member in data.homelabops_app.web.members : key => member.ipv4 }
}
