//go:build lab

package rollout_test

import (
	"fmt"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// holder is an App that has its data on a volume.
func holder(t *testing.T, l *lab.Lab) *patient {
	t.Helper()
	b := newBench(t, l, 1)
	b.wish.Endpoint, b.wish.Rollout.AllowDowntime = nil, true
	p := patientOn(t, b, l.Socket(), 1)
	p.alone = true
	p.keeps(l.Pool())
	return p
}

// keeps has the App's data in a pool.
func (p *patient) keeps(pool string) {
	p.wish.App.Volumes = []renderer.Volume{{Name: "data", Path: "/data", Discard: true, Pool: pool}}
	p.volumes = 1
}

// fill makes the App with its data.
func (p *patient) fill(t *testing.T) {
	t.Helper()
	p.make(t)
	p.sh(t, p.only(t).Name, "echo precious > /data/file && sync")
	p.looks = p.holdsData
}

// only is the App's one instance.
func (p *patient) only(t *testing.T) *rollout.Instance {
	t.Helper()
	o, err := p.Observe(t.Context(), p.wish.App.Name, rollout.Observation{})
	if err != nil || len(o.Instances()) != 1 {
		t.Fatalf("want one instance: %s (%v)", state(o), err)
	}
	return o.Instances()[0]
}

// holdsData says where the App has not its data on a volume in the pool where it should be, with nothing of the roll-out left.
func (p *patient) holdsData(t *testing.T) []string {
	t.Helper()
	i, pool := p.only(t), p.wish.App.Volumes[0].Pool
	var faults []string
	if data := p.sh(t, i.Name, "cat /data/file"); data != "precious" {
		faults = append(faults, fmt.Sprintf("its data is %q", data))
	}
	if i.Mounts["data"].Pool != pool {
		faults = append(faults, fmt.Sprintf("its data is at %v, want pool %s", i.Mounts["data"], pool))
	}
	if snapshots, err := p.client.GetStoragePoolVolumeSnapshots(t.Context(), pool, i.Mounts["data"].Volume); err != nil || len(snapshots) > 0 {
		faults = append(faults, fmt.Sprintf("snapshots that are left: %v, %v", snapshots, err))
	}
	return faults
}

func TestLabKilledUpdateInPlaceKeepsItsData(t *testing.T) {
	killTable{strategy: "in-place", lanes: 3, usual: []int{12, 17}, open: func(t *testing.T, lane int) *patient {
		l := lab.Attach(t)
		p := holder(t, l)
		p.wish.App.Devices = map[string]map[string]string{
			"eth0": {"type": "nic", "network": l.Network(), "name": "eth0", "ipv4.address": l.StaticAddress(9 + lane).String()},
		}
		p.pools = []string{l.Pool()}
		p.fill(t)
		return p
	}}.run(t)
}

// TestLabKilledMoveKeepsItsData is for an update that moves the data to another pool.
func TestLabKilledMoveKeepsItsData(t *testing.T) {
	killTable{strategy: "move", apart: 3, lanes: 3, usual: []int{15, 26}, open: func(t *testing.T, _ int) *patient {
		l := lab.Attach(t)
		pools := []string{l.Pool(), l.ExtraPool(t, "dir")}
		p := holder(t, l)
		p.pools = pools
		p.fill(t)
		p.next = func(t *testing.T, point int) (killed, then work) {
			p.keeps(p.pools[map[string]int{"1.0.0": 1, "1.1.0": 0}[p.at]])
			return p.upgrade(t, point)
		}
		return p
	}}.run(t)
}

// TestLabKilledUpdateOfAMachineKeepsItsName is for a machine that holds nothing: its candidate is renamed into its place.
func TestLabKilledUpdateOfAMachineKeepsItsName(t *testing.T) {
	killTable{strategy: "machine", apart: 3, lanes: 2, usual: []int{12, 17}, open: func(t *testing.T, _ int) *patient {
		l := lab.Attach(t)
		b := newBench(t, l, 1)
		b.machine(t)
		p := patientOn(t, b, l.Socket(), 1)
		p.make(t)
		p.looks = func(t *testing.T) []string {
			if i := p.only(t); i.Name != "nas" {
				return []string{"it is called " + i.Name}
			}
			return nil
		}
		return p
	}}.run(t)
}
