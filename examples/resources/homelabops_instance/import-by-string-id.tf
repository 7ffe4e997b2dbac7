import {
  to = homelabops_instance.nas
  id = "default/nas"
}
