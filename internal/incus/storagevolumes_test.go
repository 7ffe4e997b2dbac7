package incus_test

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
)

const volumesPath = "/1.0/storage-pools/" + incustest.DefaultPool + "/volumes/custom"

// volume makes a volume.
func volume(t *testing.T, client *incus.Client, name string, config map[string]string) {
	t.Helper()
	if err := client.CreateStoragePoolVolume(t.Context(), incustest.DefaultPool, incus.StorageVolume{Name: name, Config: config}); err != nil {
		t.Fatal(err)
	}
}

func TestVolumeInAClusterIsNotMadeWithoutATarget(t *testing.T) {
	server := incustest.New(incustest.WithMembers("n1", "n2"))
	client := server.Client(t)
	err := client.CreateStoragePoolVolume(t.Context(), incustest.DefaultPool, incus.StorageVolume{Name: "data"})
	if !errors.Is(err, incus.ErrInvalid) || !strings.Contains(err.Error(), "data needs a target") {
		t.Errorf("got %v", err)
	}
	if n := server.Count(incustest.Mutating); n != 0 {
		t.Errorf("%d writes were sent", n)
	}
}

func TestUpdateKeepsTheServersOwnKeysOfAVolume(t *testing.T) {
	server := incustest.New()
	client := server.Client(t)
	volume(t, client, "data", map[string]string{"volatile.idmap.last": "[1]", "user.a": "1"})
	put := incus.StorageVolumePut{Config: map[string]string{"size": "20MiB"}}
	if err := client.UpdateStoragePoolVolume(t.Context(), incustest.DefaultPool, "data", put, ""); err != nil {
		t.Fatal(err)
	}
	got, _, err := client.GetStoragePoolVolume(t.Context(), incustest.DefaultPool, "data")
	if err != nil || got.Config["volatile.idmap.last"] != "[1]" || got.Config["size"] != "20MiB" || got.Config["user.a"] != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	if len(put.Config) != 1 {
		t.Errorf("the caller's map was changed: %v", put.Config)
	}
}

func TestUnconditionalUpdateOfAVolumeMeetsAnotherWriter(t *testing.T) {
	server := incustest.New()
	client := server.Client(t)
	volume(t, client, "data", nil)
	server.FailNth(1, incustest.To(http.MethodPut, volumesPath+"/data"), http.StatusPreconditionFailed, "ETag doesn't match")
	put := incus.StorageVolumePut{Config: map[string]string{"size": "20MiB"}}
	if err := client.UpdateStoragePoolVolume(t.Context(), incustest.DefaultPool, "data", put, ""); err != nil {
		t.Error(err)
	}
	if err := client.UpdateStoragePoolVolume(t.Context(), incustest.DefaultPool, "data", put, "old"); !errors.Is(err, incus.ErrPrecondition) {
		t.Errorf("got %v for an ETag that is old", err)
	}
}

func TestRestoreOfAMissingSnapshotIsNotSent(t *testing.T) {
	server := incustest.New()
	client := server.Client(t)
	volume(t, client, "data", nil)
	err := client.RestoreStoragePoolVolumeSnapshot(t.Context(), incustest.DefaultPool, "data", "nosuch")
	if !errors.Is(err, incus.ErrNotFound) || server.Count(incustest.To(http.MethodPut, volumesPath+"/data")) != 0 {
		t.Errorf("got %v", err)
	}
}

func TestVolumeOfALostMemberIsNeverGone(t *testing.T) {
	server := incustest.New(incustest.WithMembers("n1", "n2"))
	client := server.Client(t)
	volume(t, client.UseTarget("n2"), "data", map[string]string{"user.tag": "1"})
	server.OfflineMember("n2")
	incustest.CheckLostVolume(t, client, incustest.DefaultPool, "data", "n2")
}

func TestVolumeOfASharedPoolHasNoLocation(t *testing.T) {
	server := incustest.New(incustest.WithMembers("n1", "n2"), incustest.WithPool("shared", "ceph"))
	client := server.Client(t)
	if err := client.UseTarget("n1").CreateStoragePoolVolume(t.Context(), "shared", incus.StorageVolume{Name: "data"}); err != nil {
		t.Fatal(err)
	}
	if err := client.UseTarget("n2").CreateStoragePoolVolume(t.Context(), "shared", incus.StorageVolume{Name: "data"}); !errors.Is(err, incus.ErrAlreadyExists) {
		t.Errorf("got %v", err)
	}
	for n, member := range []string{"n1", "n2"} {
		wanted := post
		wanted.Name = []string{"a", "b"}[n]
		wanted.Devices = map[string]map[string]string{"data": {"type": "disk", "pool": "shared", "source": "data", "path": "/data"}}
		op, err := client.UseTarget(member).CreateInstance(t.Context(), wanted)
		if err == nil {
			err = op.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got, _, err := client.GetStoragePoolVolume(t.Context(), "shared", "data")
	if err != nil || got.Location != "" || !slices.Equal(got.UsedBy, []string{"/1.0/instances/a", "/1.0/instances/b"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestMissingDeviceOfAnInstanceIsNotAMissingInstance(t *testing.T) {
	text := `Failed add validation for device "data": Failed loading custom volume: Storage volume not found`
	client := answering(t, http.StatusNotFound, "application/json", []byte(`{"type":"error","error_code":404,"error":`+strconv.Quote(text)+`}`))
	empty := ""
	err := client.PatchInstance(t.Context(), "a", incus.InstancePatch{Description: &empty}, "")
	if !errors.Is(err, incus.ErrInvalid) || errors.Is(err, incus.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
