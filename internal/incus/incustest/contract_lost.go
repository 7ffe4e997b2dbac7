package incustest

import (
	"errors"
	"slices"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// CheckLostVolume checks what a cluster says of a volume with the key user.tag=1 whose member is offline: unlike an
// instance it is listed with all that it has, also by its tag, while anything that needs the member fails, and never as if
// the volume were gone.
func CheckLostVolume(t *testing.T, client *incus.Client, pool, name, member string) {
	t.Helper()
	for _, filter := range []string{"", "config.user.tag eq 1"} {
		list, err := client.GetStoragePoolVolumes(t.Context(), pool, incus.StorageVolumesFilter{Filter: filter})
		at := slices.IndexFunc(list, func(v incus.StorageVolume) bool { return v.Name == name })
		if err != nil || at < 0 || list[at].Location != member || list[at].Config["user.tag"] != "1" {
			t.Errorf("list with the filter %q: got %+v, %v", filter, list, err)
		}
	}
	there := client.UseTarget(member)
	_, _, unnamed := client.GetStoragePoolVolume(t.Context(), pool, name)
	_, _, read := there.GetStoragePoolVolume(t.Context(), pool, name)
	for what, err := range map[string]error{
		"read without a target": unnamed,
		"read":                  read,
		"update":                there.UpdateStoragePoolVolume(t.Context(), pool, name, incus.StorageVolumePut{}, ""),
		"delete":                there.DeleteStoragePoolVolume(t.Context(), pool, name),
		"create":                there.CreateStoragePoolVolume(t.Context(), pool, incus.StorageVolume{Name: "other"}),
	} {
		t.Logf("%s: %v", what, err)
		for _, wrong := range []error{incus.ErrNotFound, incus.ErrAlreadyExists, incus.ErrInvalid, incus.ErrInUse} {
			if err == nil || errors.Is(err, wrong) {
				t.Errorf("%s: got %v", what, err)
			}
		}
	}
}
