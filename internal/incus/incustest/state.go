package incustest

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

func (s *Server) getState(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(projectOf(r), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return object(s.stateOf(i)), nil
}

// stateOf describes what an instance does. The lock is held.
func (s *Server) stateOf(i *instance) *incus.InstanceState {
	state := &incus.InstanceState{Status: i.Status, StatusCode: i.StatusCode}
	if i.Status == incus.StatusStopped {
		return state
	}
	state.Pid, state.Processes = i.pid, 2
	if started, err := time.Parse(time.RFC3339Nano, i.startedAt); err == nil {
		state.StartedAt = started
	}
	state.Network = map[string]incus.InstanceStateNetwork{"lo": {
		Addresses: []incus.InstanceStateAddress{{Family: "inet", Address: "127.0.0.1", Netmask: "8", Scope: "local"}},
		State:     "up", Type: "loopback",
	}}
	_, devices := s.expand(i)
	for name, device := range devices {
		if device["type"] != "nic" {
			continue
		}
		card := incus.InstanceStateNetwork{Hwaddr: orDefault(device["hwaddr"], i.Config["volatile."+name+".hwaddr"]), State: "up", Type: "broadcast", Addresses: []incus.InstanceStateAddress{}}
		if address, ok := i.addresses[name]; ok {
			bits := "24"
			if n := s.network(device["network"]); n != nil {
				bits = strconv.Itoa(n.subnet.Bits())
			}
			card.Addresses = append(card.Addresses, incus.InstanceStateAddress{Family: "inet", Address: address.String(), Netmask: bits, Scope: "global"})
		}
		state.Network[orDefault(device["name"], name)] = card
	}
	return state
}

func (s *Server) putState(r *http.Request) (reply, error) {
	name, project := r.PathValue("name"), projectOf(r)
	var put incus.InstanceStatePut
	if err := read(r, &put); err != nil {
		return nil, err
	}
	s.mu.Lock()
	_, err := s.find(project, name)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	act, ok := map[string]func() error{
		"start":    func() error { return s.startInstance(project, name) },
		"stop":     func() error { return s.stopInstance(project, name, put) },
		"restart":  func() error { return s.restartInstance(project, name, put) },
		"freeze":   func() error { return s.setStatus(project, name, incus.StatusRunning, incus.StatusFrozen, 110) },
		"unfreeze": func() error { return s.setStatus(project, name, incus.StatusFrozen, incus.StatusRunning, 103) },
	}[put.Action]
	if !ok {
		return nil, fail(http.StatusBadRequest, fmt.Sprintf("Unknown action: '%s'", put.Action))
	}
	return s.run(r, "Changing the state of an instance", "/1.0/instances/"+name, func() (any, error) { return nil, act() }), nil
}

// startInstance starts an instance and gives it its addresses.
func (s *Server) startInstance(project, name string) error {
	s.mu.Lock()
	i, err := s.find(project, name)
	if err == nil && i.Status != incus.StatusStopped {
		err = fail(http.StatusInternalServerError, "The instance is already running")
	}
	if err == nil {
		err = s.checkParents(i)
	}
	if err == nil && i.rootless {
		err = fail(http.StatusInternalServerError, "Failed to handle idmapped storage: Failed expanding symlinks of \"\": no such file or directory")
	}
	if err == nil {
		err = s.conflicts(i)
	}
	if err == nil {
		err = s.attachVolumes(i)
	}
	var shown incus.Instance
	if err == nil {
		shown = s.show(i, false)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if s.OnStart != nil {
		if err := s.OnStart(shown); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, err = s.find(project, name); err != nil {
		return err
	}
	i.Status, i.StatusCode = incus.StatusRunning, 103
	i.pid++
	i.died = make(chan struct{})
	i.startedAt = s.now().Format(time.RFC3339Nano)
	i.LastUsedAt = s.now()
	i.Config["volatile.last_state.power"] = "RUNNING"
	s.assignAddresses(i)
	return nil
}

// checkParents refuses a start where a card's parent is missing. The lock is held.
func (s *Server) checkParents(i *instance) error {
	_, devices := s.expand(i)
	for name, device := range devices {
		if parent := device["parent"]; device["type"] == "nic" && parent != "" && s.network(parent) == nil {
			return fail(http.StatusInternalServerError, fmt.Sprintf("Failed to start device %q: Parent device %q doesn't exist", name, parent))
		}
	}
	return nil
}

// assignAddresses gives each card on a network with a subnet an address: its static one, the one it had, or the lowest
// free one. The lock is held.
func (s *Server) assignAddresses(i *instance) {
	_, devices := s.expand(i)
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		device := devices[name]
		n := s.network(device["network"])
		if device["type"] != "nic" || n == nil || !n.subnet.IsValid() {
			continue
		}
		if static, err := netip.ParseAddr(device["ipv4.address"]); err == nil {
			i.addresses[name] = static
			continue
		}
		if _, has := i.addresses[name]; !has {
			i.addresses[name] = s.freeAddress(n)
		}
	}
}

// freeAddress returns the lowest address of a network that no instance has, from .100 on. The lock is held.
func (s *Server) freeAddress(n *network) netip.Addr {
	taken := map[netip.Addr]bool{}
	for _, i := range s.instances {
		for _, address := range i.addresses {
			taken[address] = true
		}
		_, devices := s.expand(i) // an address that a stopped instance has reserved is not given away
		for _, device := range devices {
			if reserved, err := netip.ParseAddr(device["ipv4.address"]); err == nil {
				taken[reserved] = true
			}
		}
	}
	for listen := range n.forwards {
		taken[listen] = true
	}
	address := n.subnet.Masked().Addr()
	for range 100 {
		address = address.Next()
	}
	for taken[address] {
		address = address.Next()
	}
	return address
}

// stopInstance stops an instance. It keeps its addresses, as a DHCP server does.
func (s *Server) stopInstance(project, name string, how incus.InstanceStatePut) error {
	s.mu.Lock()
	i, err := s.find(project, name)
	if err == nil && i.Status == incus.StatusStopped {
		err = fail(http.StatusBadRequest, "The instance is already stopped")
	}
	var shown incus.Instance
	if err == nil {
		shown = s.show(i, false)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if s.OnStop != nil {
		if err := s.OnStop(shown, how); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, err = s.find(project, name); err != nil {
		return err
	}
	i.Status, i.StatusCode = incus.StatusStopped, 102
	i.die()
	i.Config["volatile.last_state.power"] = "STOPPED"
	if i.Ephemeral {
		delete(s.instances, key{project, name})
	}
	return nil
}

// die ends what runs in an instance. The server's lock is held.
func (i *instance) die() {
	if i.died != nil {
		close(i.died)
		i.died = nil
	}
}

func (s *Server) restartInstance(project, name string, how incus.InstanceStatePut) error {
	if err := s.stopInstance(project, name, how); err != nil {
		return err
	}
	return s.startInstance(project, name)
}

// setStatus changes the status of an instance that has a certain one.
func (s *Server) setStatus(project, name, from, to string, code int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(project, name)
	if err != nil {
		return err
	}
	if i.Status != from {
		return fail(http.StatusInternalServerError, "The instance is "+i.Status)
	}
	i.Status, i.StatusCode = to, code
	return nil
}
