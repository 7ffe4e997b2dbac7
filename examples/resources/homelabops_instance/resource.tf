# One long-lived machine with a stable name.
resource "homelabops_instance" "nas" {
  name        = "nas"
  description = "Files for the house"
  image       = "web/1.0.0"
  limits      = { memory = "256MiB" }
  environment = { TZ = "Europe/Berlin" }

  # What is on the volume outlives every update, and the instance itself.
  volumes = { data = { path = "/srv", size = "1GiB" } }

  health = { http = { port = 8080 } }

  # The volume can have one holder only, so that an update stops the old instance before the new one starts.
  rollout = { allow_downtime = true }
}

# Without anything that one instance only can have, an update is a rename: the new one passes its gate beside the old one.
resource "homelabops_instance" "shell" {
  name  = "shell"
  image = "web/1.0.0"
}
