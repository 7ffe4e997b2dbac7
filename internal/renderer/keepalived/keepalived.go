package keepalived

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

const (
	// configPath is where keepalived reads its configuration. The image starts keepalived where this file is.
	configPath = "/etc/keepalived/keepalived.conf"
	// priorityPath holds one instance's priority alone: it changes with the promotion, which the configuration does not.
	priorityPath = "/etc/keepalived/priority.conf"
	// servesPath and notePath are scripts that keepalived runs. It takes no links for scripts, which pidof is in many images.
	servesPath = "/etc/keepalived/serves"
	notePath   = "/etc/keepalived/note"
	// statePath is where the latter writes what keepalived is: MASTER, BACKUP, FAULT or STOP.
	statePath = "/run/homelab-ops-vrrp"
)

// Priorities, of 1 to 254 (RFC 5798, 5.2.4). A candidate gets the address only where nobody else is. An instance of a later
// generation takes it over from one of an earlier; after as many generations as there are priorities, it gets it when the
// earlier one stops.
const (
	candidatePriority = 10
	activePriority    = 100
	activePriorities  = 150
)

// Files returns the files that have an App's members hold its floating address for as long as a process of the name, of 15
// letters at most, runs in them.
func Files(f renderer.Floating, process string) []renderer.File {
	family := ""
	if strings.Contains(f.Address, ":") {
		family = "    native_ipv6\n"
	}
	return []renderer.File{
		{Path: configPath, Content: fmt.Sprintf(config, priorityPath, servesPath, f.Interface, f.Router, family, f.Address, f.Interface, notePath)},
		{Path: servesPath, Mode: 0o755, Content: fmt.Sprintf(serves, process)},
		{Path: notePath, Mode: 0o755, Content: fmt.Sprintf(note, statePath)},
	}
}

// config begins without the address until the process is seen, so that an instance which starts again takes it from nobody
// before it serves. Neighbours are told of a move twice, a second apart: they may not believe it within a second of the last
// time they asked (locktime in arp(7)). Half a second between advertisements lets a busy machine be late by one and a half
// before the address moves without need.
const config = `# Written by homelabops: one address for all members of the App.
include %s

global_defs {
    script_user root
    enable_script_security
    vrrp_version 3
    vrrp_garp_master_repeat 3
    vrrp_garp_master_delay 1
    vrrp_garp_master_refresh 10
}

vrrp_script serves {
    script "%s"
    interval 1
    fall 2
    rise 1
    init_fail
}

vrrp_instance app {
    state BACKUP
    interface %s
    virtual_router_id %d
    priority $PRIORITY
    advert_int 0.5
%s    virtual_ipaddress {
        %s dev %s
    }
    track_script {
        serves
    }
    notify "%s"
}
`

// serves exits with 0 while a process of the name runs.
const serves = `#!/bin/sh
for comm in /proc/[0-9]*/comm; do
	read -r name <"$comm" && [ "$name" = %s ] && exit 0
done 2>/dev/null
exit 1
`

// note is called with kind, name, state and priority.
const note = `#!/bin/sh
echo "$3" >%s
`

// Candidate returns the file with which an instance begins: it takes the address from nobody.
func Candidate() renderer.File { return priority(candidatePriority) }

func priority(n int) renderer.File {
	return renderer.File{Path: priorityPath, Content: fmt.Sprintf("$PRIORITY=%d\n", n)}
}

// Promote lets green take the address over, and waits until blue has it no more, so that nobody comes to blue while it drains.
// A first instance is waited for until it has the address, or another one must have it. Blue gets no write: where green goes,
// the address is blue's again. Where blue keeps it for good, there is nobody to take it, and it moves when blue stops.
func Promote(ctx context.Context, h renderer.Handover) error {
	if err := prefer(ctx, h.Machine, h.Green.Instance, activePriority+h.Generation%activePriorities); err != nil {
		return err
	}
	address, _, _ := strings.Cut(h.App.Floating.Address, "/")
	began := time.Now()
	for {
		is := state(ctx, h.Machine, h.Green.Instance)
		elected := is == "MASTER" || is == "BACKUP" && (h.Blue.Instance != "" || time.Since(began) > electionTime)
		if elected && !has(ctx, h.Machine, h.Blue.Instance, h.App.Floating.Interface, address) {
			return nil
		}
		if wait(ctx) == nil && time.Since(began) < takeOverTime {
			continue
		}
		if !elected {
			return fmt.Errorf("have keepalived in %s hold %s: it is not able to after %s, last seen: %s: look at its log, and whether %s is an interface of the instance",
				h.Green.Instance, address, takeOverTime, is, h.App.Floating.Interface)
		}
		return nil
	}
}

// Yield has an instance that is about to go give the address to any other one of the App, where there is one. It waits until
// that has it.
func Yield(ctx context.Context, machine renderer.Machine, f renderer.Floating, instance string) error {
	if err := prefer(ctx, machine, instance, candidatePriority); err != nil {
		return err
	}
	address, _, _ := strings.Cut(f.Address, "/")
	for end := time.Now().Add(takeOverTime); time.Now().Before(end) && has(ctx, machine, instance, f.Interface, address); {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reload signals the first of keepalived's processes, which is the one that reads the configuration.
const reload = `kill -HUP "$(pidof keepalived | tr ' ' '\n' | sort -n | head -n 1)"`

// prefer gives an instance a priority.
func prefer(ctx context.Context, machine renderer.Machine, instance string, n int) error {
	if err := machine.PushFile(ctx, instance, priority(n)); err != nil {
		return fmt.Errorf("give %s another priority to hold the address: %w", instance, err)
	}
	result, err := renderer.ExecRepeatable(ctx, func(ctx context.Context) (incus.ExecResult, error) {
		return machine.Exec(ctx, instance, incus.ExecPost{Command: []string{"sh", "-c", reload}})
	})
	if err != nil {
		return fmt.Errorf("have keepalived in %s read its priority: %w", instance, err)
	}
	if result.ExitCode != 0 {
		return fmt.Errorf("have keepalived in %s read its priority: none runs (%s): the image must bring keepalived, and start it where %s is", instance,
			strings.TrimSpace(string(result.Stderr)), configPath)
	}
	return nil
}

const (
	// electionTime is how long it takes until one of those who stand by takes the address: three missed advertisements and less
	// than another one.
	electionTime = 2500 * time.Millisecond
	// takeOverTime bounds the wait for the address to move, with room for a busy machine.
	takeOverTime = 10 * time.Second
	lookPause    = 200 * time.Millisecond
)

func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lookPause):
		return nil
	}
}

// state is what keepalived in an instance is, in its own words; otherwise why that is not known.
func state(ctx context.Context, machine renderer.Machine, instance string) string {
	result, err := machine.Exec(ctx, instance, incus.ExecPost{Command: []string{"cat", statePath}})
	if err != nil {
		return err.Error()
	}
	return cmp.Or(strings.TrimSpace(string(result.Stdout)), "it has not begun")
}

// has tells whether an instance has the address; no where that can't be told.
func has(ctx context.Context, machine renderer.Machine, instance, device, address string) bool {
	if instance == "" {
		return false
	}
	result, err := machine.Exec(ctx, instance, incus.ExecPost{Command: []string{"ip", "-o", "addr", "show", "dev", device}})
	return err == nil && result.ExitCode == 0 && strings.Contains(string(result.Stdout), " "+address+"/")
}
