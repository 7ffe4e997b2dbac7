import {
  to = homelabops_app.web
  identity = {
    project = "default"
    name    = "web"
  }
}
