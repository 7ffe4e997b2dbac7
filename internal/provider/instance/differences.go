package instance

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// differences names what of an instance would have to be another one.
func differences(is, want rollout.Rendered, isImage, wantImage string) []string {
	var all []string
	if isImage != wantImage {
		all = append(all, fmt.Sprintf("image (%s, not %s)", isImage, wantImage))
	}
	for _, key := range keys(is.Spec.Config, want.Spec.Config) {
		if have, wanted := is.Spec.Config[key], want.Spec.Config[key]; have != wanted {
			all = append(all, fmt.Sprintf("%s (%q, not %q)", key, have, wanted))
		}
	}
	for _, name := range keys(is.Spec.Devices, want.Spec.Devices) {
		if have, wanted := is.Spec.Devices[name], want.Spec.Devices[name]; !maps.Equal(have, wanted) {
			all = append(all, fmt.Sprintf("device %s (%v, not %v)", name, have, wanted))
		}
	}
	if !slices.Equal(is.Spec.Profiles, want.Spec.Profiles) {
		all = append(all, fmt.Sprintf("profiles (%q, not %q)", is.Spec.Profiles, want.Spec.Profiles))
	}
	if !reflect.DeepEqual(is.Spec.Files, want.Spec.Files) {
		all = append(all, "files")
	}
	return all
}

// keys are those of either map, in order.
func keys[V any](a, b map[string]V) []string {
	both := map[string]bool{}
	for key := range a {
		both[key] = true
	}
	for key := range b {
		both[key] = true
	}
	return slices.Sorted(maps.Keys(both))
}

func volumeNames(volumes []renderer.Volume) []string {
	var all []string
	for _, v := range volumes {
		all = append(all, v.Name)
	}
	return all
}
