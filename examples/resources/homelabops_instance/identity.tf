import {
  to = homelabops_instance.nas
  identity = {
    project = "default"
    name    = "nas"
  }
}
