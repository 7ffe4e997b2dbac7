# "1.27"
output "version" {
  value = provider::homelabops::parse_image("docker:library/nginx:1.27").version
}
