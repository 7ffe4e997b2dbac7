package rollout

import (
	"context"
	"io"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// Incus is what the engine needs of a server.
type Incus interface {
	// Project is the project that all instances are in; empty for the default one.
	Project() string
	UseTarget(member string) *incus.Client
	// Guard returns a client that asks before it changes anything.
	Guard(may func(context.Context) error) *incus.Client
	GetServer(ctx context.Context) (*incus.Server, error)
	GetClusterMembers(ctx context.Context) ([]incus.ClusterMember, error)
	GetProject(ctx context.Context, name string) (*incus.Project, error)
	GetProfile(ctx context.Context, name string) (*incus.Profile, string, error)
	GetStoragePool(ctx context.Context, name string) (*incus.StoragePool, error)

	GetInstances(ctx context.Context, filter incus.InstancesFilter) ([]incus.Instance, error)
	GetInstance(ctx context.Context, name string) (*incus.Instance, string, error)
	CreateInstance(ctx context.Context, post incus.InstancesPost) (incus.Operation, error)
	UpdateInstance(ctx context.Context, name string, put incus.InstancePut, etag string) (incus.Operation, error)
	PatchInstance(ctx context.Context, name string, patch incus.InstancePatch, etag string) error
	RenameInstance(ctx context.Context, name, newName string) (incus.Operation, error)
	DeleteInstance(ctx context.Context, name string) (incus.Operation, error)
	UpdateInstanceState(ctx context.Context, name string, put incus.InstanceStatePut) (incus.Operation, error)

	ExecInstance(ctx context.Context, name string, post incus.ExecPost) (incus.ExecResult, error)
	CreateInstanceFile(ctx context.Context, instance, path string, file incus.File) error
	DeleteInstanceFile(ctx context.Context, instance, path string) error
	CreateInstanceDirectory(ctx context.Context, instance, path string, mode, uid, gid int) error

	GetImage(ctx context.Context, fingerprint string) (*incus.Image, error)
	EnsureImage(ctx context.Context, source incus.ImageSource, instanceType string) (string, error)

	GetProfiles(ctx context.Context) ([]incus.Profile, error)
	GetStoragePools(ctx context.Context) ([]incus.StoragePool, error)
	GetStoragePoolVolumes(ctx context.Context, pool string, filter incus.StorageVolumesFilter) ([]incus.StorageVolume, error)
	GetStoragePoolVolume(ctx context.Context, pool, name string) (*incus.StorageVolume, string, error)
	CreateStoragePoolVolume(ctx context.Context, pool string, volume incus.StorageVolume) error
	CopyStoragePoolVolume(ctx context.Context, pool string, source incus.StorageVolumeSource, volume incus.StorageVolume) (incus.Operation, error)
	RenameStoragePoolVolume(ctx context.Context, pool, name, newName string) error
	GetStoragePoolVolumeState(ctx context.Context, pool, name string) (*incus.StorageVolumeState, error)
	UpdateStoragePoolVolume(ctx context.Context, pool, name string, put incus.StorageVolumePut, etag string) error
	DeleteStoragePoolVolume(ctx context.Context, pool, name string) error
	GetStoragePoolVolumeSnapshots(ctx context.Context, pool, volume string) ([]incus.StorageVolumeSnapshot, error)
	CreateStoragePoolVolumeSnapshot(ctx context.Context, pool, volume, name string) (incus.Operation, error)
	RestoreStoragePoolVolumeSnapshot(ctx context.Context, pool, volume, snapshot string) error
	DeleteStoragePoolVolumeSnapshot(ctx context.Context, pool, volume, snapshot string) (incus.Operation, error)
	CreateStoragePoolVolumeBackup(ctx context.Context, pool, volume, name string, expires time.Time) (incus.Operation, error)
	ReadStoragePoolVolumeBackup(ctx context.Context, pool, volume, name string, read func(io.Reader) error) error
	DeleteStoragePoolVolumeBackup(ctx context.Context, pool, volume, name string) (incus.Operation, error)
	GetOperations(ctx context.Context) ([]incus.OperationInfo, error)

	GetNetwork(ctx context.Context, name string) (*incus.Network, error)
	GetNetworkForwards(ctx context.Context, network string) ([]incus.NetworkForward, error)
	GetNetworkForward(ctx context.Context, network, listen string) (*incus.NetworkForward, string, error)
	CreateNetworkForward(ctx context.Context, network string, forward incus.NetworkForward) error
	UpdateNetworkForward(ctx context.Context, network, listen string, forward incus.NetworkForward, etag string) error
	DeleteNetworkForward(ctx context.Context, network, listen string) error
}
