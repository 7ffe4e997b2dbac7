# "major"
output "change" {
  value = provider::homelabops::classify_change("nginx", "1.27.3", "2.0.0")
}
