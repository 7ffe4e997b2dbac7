# By name in the provider's project, or with the project before it. Instances made by hand can be imported too.
terraform import homelabops_instance.nas nas
terraform import homelabops_instance.nas default/nas
