package app

import (
	"slices"
	"testing"
)

func TestScarceResourcesAreFoundByDevice(t *testing.T) {
	for name, tc := range map[string]struct {
		device map[string]string
		want   []string
	}{
		"plain network":        {map[string]string{"type": "nic", "network": "lan", "ipv6.address": "none"}, nil},
		"static address":       {map[string]string{"type": "nic", "network": "lan", "ipv4.address": "192.0.2.7"}, []string{"static address 192.0.2.7 (device d)"}},
		"fixed MAC":            {map[string]string{"type": "nic", "network": "lan", "hwaddr": "10:66:6a:00:00:14"}, []string{"fixed MAC 10:66:6a:00:00:14 (device d)"}},
		"physical card":        {map[string]string{"type": "nic", "nictype": "physical", "parent": "eth1"}, []string{"network card eth1 (device d)"}},
		"port of the host":     {map[string]string{"type": "proxy", "listen": "tcp:0.0.0.0:80"}, []string{"host port tcp:0.0.0.0:80 (device d)"}},
		"port of the instance": {map[string]string{"type": "proxy", "listen": "tcp:127.0.0.1:80", "bind": "instance"}, nil},
		"graphics card":        {map[string]string{"type": "gpu"}, []string{"gpu device (device d)"}},
		"character device":     {map[string]string{"type": "unix-char", "path": "/dev/ttyUSB0"}, []string{"unix-char device (device d)"}},
		"root disk":            {map[string]string{"type": "disk", "path": "/", "pool": "default"}, nil},
		"volume":               {map[string]string{"type": "disk", "pool": "default", "source": "db", "path": "/db"}, []string{"volume db (device d)"}},
		"block volume":         {map[string]string{"type": "disk", "pool": "default", "source": "db"}, []string{"volume db (device d)"}},
		"folder of the host":   {map[string]string{"type": "disk", "source": "/srv/db", "path": "/db"}, []string{"folder /srv/db of the host (device d)"}},
		"disk of the host":     {map[string]string{"type": "disk", "source": "/dev/sdb"}, []string{"disk /dev/sdb of the host (device d)"}},
		"disk elsewhere":       {map[string]string{"type": "disk", "source": "cephfs:fs/db", "path": "/db"}, []string{"disk cephfs:fs/db (device d)"}},
		"not read only":        {map[string]string{"type": "disk", "source": "/srv/db", "path": "/db", "readonly": "false"}, []string{"folder /srv/db of the host (device d)"}},
		"read only":            {map[string]string{"type": "disk", "source": "/srv/db", "path": "/db", "readonly": "true"}, nil},
		"read only, as a word": {map[string]string{"type": "disk", "pool": "default", "source": "db", "path": "/db", "readonly": "Yes"}, nil},
		"read only, as a bit":  {map[string]string{"type": "disk", "source": "/srv/db", "path": "/db", "readonly": "1"}, nil},
		"agent's disk":         {map[string]string{"type": "disk", "source": "agent:config"}, nil},
		"cloud-init's disk":    {map[string]string{"type": "disk", "source": "cloud-init:config"}, nil},
		"memory":               {map[string]string{"type": "disk", "source": "tmpfs:", "path": "/scratch"}, nil},
	} {
		var got []string
		for _, s := range ScarceIn(map[string]map[string]string{"d": tc.device}) {
			got = append(got, s.String())
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestAddressesAreTakenOffAndNothingElse(t *testing.T) {
	devices := map[string]map[string]string{
		"eth0": {"type": "nic", "network": "lan", "ipv4.address": "192.0.2.7", "ipv6.address": "none"},
		"root": {"type": "disk", "path": "/", "pool": "default"},
	}
	free, any := WithoutAddresses(devices)
	if !any || free["eth0"]["ipv4.address"] != "" || free["eth0"]["ipv6.address"] != "none" || free["root"]["pool"] != "default" {
		t.Errorf("got %v, %v", free, any)
	}
	if devices["eth0"]["ipv4.address"] == "" {
		t.Error("the given devices were changed")
	}
}
