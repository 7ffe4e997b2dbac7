# By name, or by project and name. The project must be that of the provider.
terraform import homelabops_app.web web
terraform import homelabops_app.web default/web
