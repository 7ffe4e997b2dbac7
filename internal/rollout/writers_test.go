package rollout_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/incus/incustest"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

const precious = "precious"

var (
	volumeDevice = map[string]string{"type": "disk", "pool": "default", "source": precious, "path": "/var/lib/db"}
	folderDevice = map[string]string{"type": "disk", "source": "/srv/db", "path": "/var/lib/db"}
)

// readOnly is a device that nobody writes through.
func readOnly(device map[string]string) map[string]string {
	all := map[string]string{"readonly": "true"}
	for key, value := range device {
		all[key] = value
	}
	return all
}

// device gives the App a device, and the server the volume that it may be.
func (s *sim) device(device map[string]string) {
	s.t.Helper()
	s.wish.Endpoint = nil
	s.wish.App.Devices = map[string]map[string]string{"db": device}
	if device["pool"] == "" {
		return
	}
	if err := s.Incus.CreateStoragePoolVolume(s.t.Context(), device["pool"], incus.StorageVolume{Name: device["source"]}); err != nil {
		s.t.Fatal(err)
	}
}

// noteWriters notes two instances of one node that run at once with the device.
func (s *sim) noteWriters() (both *string) {
	both = new(string)
	start := s.server.OnStart
	s.server.OnStart = func(i incus.Instance) error {
		for _, other := range s.server.Instances() {
			if other.Name != i.Name && other.Running() && i.Devices["db"] != nil && other.Devices["db"] != nil && other.Location == i.Location {
				*both = other.Name + " and " + i.Name
			}
		}
		return start(i)
	}
	return both
}

func TestDeviceThatIsAVolumeHasOneWriter(t *testing.T) {
	for name, device := range map[string]map[string]string{"a volume": volumeDevice, "a folder of the host": folderDevice} {
		for what, machine := range map[string]bool{"a machine": true, "an App": false} {
			t.Run(name+" of "+what, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, s *sim) {
					s.device(device)
					if machine {
						s.machine()
					}
					s.mustCreate()
					both := s.noteWriters()
					if _, err := s.upgrade("1.1.0"); !errors.Is(err, rollout.ErrRefused) || !strings.Contains(err.Error(), "allow_downtime") {
						t.Errorf("without leave: %v", err)
					}
					s.wish.Rollout.AllowDowntime = true
					if _, err := s.upgrade("1.1.0"); err != nil {
						t.Error(err)
					}
					if _, err := s.upgrade("2.0.0"); !errors.Is(err, rollout.ErrReverted) {
						t.Errorf("a bad version: %v", err)
					}
					if *both != "" {
						t.Errorf("%s ran at once", *both)
					}
				})
			})
		}
	}
}

func TestDeviceThatIsReadOnlyIsNotHeld(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *sim) {
		s.device(readOnly(volumeDevice))
		s.mustCreate()
		if class := s.facts(false).Class; class != app.Stateless {
			t.Errorf("its class is %s", class)
		}
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Error(err)
		}
	})
}

func TestMembersThatWouldWriteOneDiskAreRefused(t *testing.T) {
	for name, one := range map[string]struct {
		device map[string]string
		says   []string
	}{
		"a volume":             {volumeDevice, []string{`device "db" of App "web", the volume precious`, "3 members at once (0, 1, 2)", `readonly = "true"`, "share_safe"}},
		"a folder of the host": {folderDevice, []string{"the folder /srv/db of the host", "3 members at once", `replicas = "per-node"`}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, s *sim) {
				s.device(one.device)
				_, err := s.create()
				for _, part := range one.says {
					if !errors.Is(err, rollout.ErrRefused) || !strings.Contains(err.Error(), part) {
						t.Errorf("it does not say %q: %v", part, err)
					}
				}
				s.expect("afterwards", " → nothing")
			})
		})
	}
}

func TestMembersOnEachNodeHaveTheirOwnHostsFolder(t *testing.T) {
	clustered(t, func(t *testing.T, s *sim) {
		s.device(folderDevice)
		s.perNode("m1", "m2", "m3")
		s.mustCreate()
		both := s.noteWriters()
		s.wish.Rollout.AllowDowntime = true
		if _, err := s.upgrade("1.1.0"); err != nil {
			t.Error(err)
		}
		if *both != "" {
			t.Errorf("%s ran on one host at once", *both)
		}
		s.expectPlaces("afterwards", "web-m1-g1@m1 1.1.0; web-m2-g1@m2 1.1.0; web-m3-g1@m3 1.1.0")
	})
}

func TestMembersOnEachNodeDoNotShareAVolumeOfAllNodes(t *testing.T) {
	for driver, refused := range map[string]bool{"ceph": true, "btrfs": false} {
		t.Run(driver, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, 2, incustest.WithMembers("m1", "m2"), incustest.WithPool("other", driver))
				s.wish.Endpoint = nil
				s.perNode("m1", "m2")
				s.wish.App.Devices = map[string]map[string]string{"db": {"type": "disk", "pool": "other", "source": precious, "path": "/db"}}
				for _, node := range []string{"m1", "m2"} {
					err := s.Incus.UseTarget(node).CreateStoragePoolVolume(t.Context(), "other", incus.StorageVolume{Name: precious})
					if err != nil && !refused {
						t.Fatal(err)
					}
				}
				_, err := s.create()
				if got := errors.Is(err, rollout.ErrRefused) && strings.Contains(err.Error(), "2 members at once (m1, m2)"); got != refused {
					t.Errorf("refused %t, want %t: %v", got, refused, err)
				}
			})
		})
	}
}

func TestSuccessorThatRunsBesideWritesNoDiskOfTheOldOnes(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *sim) {
		s.device(volumeDevice)
		s.wish.App.Type = "quorum"
		if _, err := s.create(); !errors.Is(err, rollout.ErrRefused) || !strings.Contains(err.Error(), "by two instances at once") {
			t.Errorf("got %v", err)
		}
	})
}

func TestDiskOfAProfileHasOneWriter(t *testing.T) {
	for name, one := range map[string]struct {
		device map[string]string
		change func(s *sim)
		says   string // empty where it is let through
	}{
		"a volume":          {volumeDevice, func(*sim) {}, `profile "data" gives every instance the volume precious (device db)`},
		"a folder":          {folderDevice, func(*sim) {}, "the folder /srv/db of the host (device db)"},
		"one that is read":  {readOnly(folderDevice), func(*sim) {}, ""},
		"the App's instead": {volumeDevice, func(s *sim) { s.wish.App.Devices = map[string]map[string]string{"db": volumeDevice} }, ""},
		"none of the App's": {volumeDevice, func(s *sim) { s.wish.App.Devices = map[string]map[string]string{"db": {"type": "none"}} }, ""},
		"a later profile's": {volumeDevice, func(s *sim) { s.wish.App.Profiles = append(s.wish.App.Profiles, "reads") }, ""},
		"an earlier one's":  {volumeDevice, func(s *sim) { s.wish.App.Profiles = []string{"reads", "default", "data"} }, "the volume precious"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, s *sim) {
				s.device(one.device)
				s.wish.App.Devices = nil
				s.wish.App.Profiles = []string{"default", "data"}
				for profile, device := range map[string]map[string]string{"data": one.device, "reads": readOnly(volumeDevice)} {
					if err := s.server.Client(t).CreateProfile(t.Context(), incus.Profile{Name: profile, Devices: map[string]map[string]string{"db": device}}); err != nil {
						t.Fatal(err)
					}
				}
				one.change(s)
				_, err := s.create()
				if one.says == "" && err != nil || one.says != "" && (!errors.Is(err, rollout.ErrRefused) || !strings.Contains(err.Error(), one.says)) {
					t.Errorf("want %q, got: %v", one.says, err)
				}
			})
		})
	}
}

// TestDiskOfAProfileStopsNothingThatMakesNoInstance changes an App whose profile was given a disk meanwhile.
func TestDiskOfAProfileStopsNothingThatMakesNoInstance(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *sim) {
		s.mustCreate()
		profile, etag, err := s.Incus.GetProfile(t.Context(), "default")
		if err != nil {
			t.Fatal(err)
		}
		profile.Devices["db"] = folderDevice
		if err := s.server.Client(t).UpdateProfile(t.Context(), "default", *profile, etag); err != nil {
			t.Fatal(err)
		}
		w := s.wish
		w.App.Description = "as before"
		if _, err := s.Apply(t.Context(), w, s.facts(false)); err != nil {
			t.Error(err)
		}
	})
}
