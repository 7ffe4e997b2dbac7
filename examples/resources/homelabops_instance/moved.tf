moved {
  from = incus_instance.nas
  to   = homelabops_instance.nas
}
