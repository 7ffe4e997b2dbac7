# Prometheus 2.53.3 can't read what 3.5.0 has written: allowed is false, reason and way_out say more.
output "step_back" {
  value = provider::homelabops::check_change("prometheus", "3.5.0", "2.53.3")
}
