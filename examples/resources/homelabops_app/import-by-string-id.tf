import {
  to = homelabops_app.web
  id = "default/web"
}
