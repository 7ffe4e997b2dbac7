package argument

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// LimitNames are Incus's limits of a container that it changes while the container runs, without their prefix (reference
// "instance-options", group resource limits, column "live update"). Limits that need a restart are left out: they would
// be shown as changed without being in force.
var LimitNames = []string{
	"cpu", "cpu.allowance", "cpu.nodes", "cpu.priority", "disk.priority", "hugepages.1GB", "hugepages.1MB", "hugepages.2MB", "hugepages.64KB",
	"memory", "memory.enforce", "memory.swap", "memory.swap.priority", "processes",
}

// MachineLimitNames are the same of a virtual machine.
var MachineLimitNames = []string{"cpu", "memory"}

// Limits reads the argument limits of containers, as Incus's keys.
func (r *Reader) Limits(m types.Map) map[string]string { return r.LimitsOf(LimitNames, m) }

// LimitsOf reads the argument limits, of which there are these.
func (r *Reader) LimitsOf(names []string, m types.Map) map[string]string {
	all := map[string]string{}
	limits := r.Texts("limits", m)
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if !slices.Contains(names, name) {
			hint := ""
			if short, had := strings.CutPrefix(name, "limits."); had && slices.Contains(names, short) {
				hint = fmt.Sprintf(" Write %q, without the prefix.", short)
			}
			r.Refuse(path.Root("limits").AtMapKey(name), "Unknown limit", "There is no limit %q that can be changed while an instance runs.%s The limits are %s.", name, hint, strings.Join(names, ", "))
			continue
		}
		all["limits."+name] = limits[name]
	}
	return all
}
