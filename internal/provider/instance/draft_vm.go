package instance

import (
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"
)

// checkVM refuses what a virtual machine does not have. What is in it is reached only through the agent, once it runs.
func (d *draft) checkVM() {
	a := d.wish.App
	if !a.VM {
		return
	}
	if len(a.Files) > 0 {
		d.Refuse(path.Root("files"), "Unexpected files", "Files of a virtual machine can be written only by the agent in it, once it runs, so that none would be there before its first start. "+
			"Bring them in the image, or with cloud-init: config = { \"cloud-init.user-data\" = … } with write_files.")
	}
	for _, name := range slices.Sorted(maps.Keys(a.Devices)) {
		if device := a.Devices[name]; device["type"] == "proxy" && device["nat"] != "true" && d.Known("devices") {
			d.Refuse(path.Root("devices").AtMapKey(name), "Unexpected proxy", "The device %s is a proxy without nat = \"true\", which needs a process in the container: a virtual machine's proxies use NAT only, and its network card needs a static address for that.", name)
		}
	}
}
