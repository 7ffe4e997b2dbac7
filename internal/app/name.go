package app

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MaxInstanceName is the longest name that Incus gives an instance: a host name's label (RFC 1123).
const MaxInstanceName = 63

// generationRoom is what a name keeps free for "-g" and the generation: six digits outlast an upgrade a minute for a
// year.
const generationRoom = len("-g") + 6

// ordinalRoom is what a name keeps free for "-<ordinal>", so that scaling out can't be what makes it too long.
const ordinalRoom = len("-999")

var namePattern = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)

// CheckName tells why a text can't be an App's name: it has to be a valid host name that stays one with the member's
// key and the generation behind it.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("name %q is not a valid host name: use lower-case letters, digits and inner dashes, beginning with a letter", name)
	}
	if room := MaxInstanceName - ordinalRoom - generationRoom; len(name) > room {
		return fmt.Errorf("name %q has %d characters: with a member's ordinal and the generation behind it an instance name would exceed %d characters; use at most %d", name, len(name), MaxInstanceName, room)
	}
	return nil
}

// CheckMemberNames tells which node's name makes an instance name of a per-node App too long or invalid.
func CheckMemberNames(name string, members []Member) error {
	for _, m := range members {
		full := name + "-" + hostLabel(m.Key)
		if len(full) > MaxInstanceName-generationRoom {
			return fmt.Errorf("name %q with node %q and the generation behind it exceeds %d characters: use a name of at most %d",
				name, m.Key, MaxInstanceName, MaxInstanceName-generationRoom-1-len(hostLabel(m.Key)))
		}
	}
	return nil
}

// CheckLabels tells which nodes' names can't be told apart in the names of a per-node App's instances and volumes, or leave nothing
// for them. A name that isn't known yet is empty, and left out.
func CheckLabels(members []Member) error {
	seen := map[string]string{}
	for _, m := range members {
		label := hostLabel(m.Key)
		other, twice := seen[label]
		switch {
		case m.Key == "":
			continue
		case label == "":
			return fmt.Errorf("node %q has neither a letter nor a digit in its name, so that no instance can be called after it", m.Key)
		case twice && other != m.Key:
			return fmt.Errorf("nodes %q and %q are both %q in an instance's name: an App can have a member on one of them only", other, m.Key, label)
		}
		seen[label] = m.Key
	}
	return nil
}

// InstanceName returns the name of a member's instance: <app>-g<gen> for the single member of an App, otherwise
// <app>-<key>-g<gen>.
func InstanceName(app string, single bool, key string, generation int) string {
	if single {
		return fmt.Sprintf("%s-g%d", app, generation)
	}
	return fmt.Sprintf("%s-%s-g%d", app, hostLabel(key), generation)
}

var instancePattern = regexp.MustCompile(`^(?:-(.+))?-g[0-9]+$`)

// MayBeInstance tells whether an instance of this name could be the App's, by the name alone: its member's key is left out,
// an ordinal, or one of the nodes.
func MayBeInstance(app, instance string, nodes []string) bool {
	rest, ok := strings.CutPrefix(instance, app)
	if ok && rest == "" {
		return true // a machine's
	}
	match := instancePattern.FindStringSubmatch(rest)
	if !ok || match == nil {
		return false
	}
	key := match[1]
	if _, err := strconv.Atoi(key); err == nil || key == "" {
		return true
	}
	return slices.ContainsFunc(nodes, func(node string) bool { return hostLabel(node) == key })
}

var notLabel = regexp.MustCompile(`[^A-Za-z0-9]+`)

// hostLabel makes a node's name usable inside a host name: a node may be named by its full domain name.
func hostLabel(key string) string { return strings.Trim(notLabel.ReplaceAllString(key, "-"), "-") }
