package app

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TagPrefix begins every configuration key that we keep on an instance.
const TagPrefix = "user.homelab-ops."

// Keys of the tags. Incus is the only record: everything needed to go on after a crash is in them and in names.
const (
	KeyApp          = TagPrefix + "app"
	KeyProject      = TagPrefix + "project" // of an endpoint only: a network may be shared by projects
	KeyWritten      = TagPrefix + "written" // of an endpoint only: how often it was written once more as it is
	KeyType         = TagPrefix + "type"
	KeyMember       = TagPrefix + "member"
	KeyGeneration   = TagPrefix + "generation"
	KeyImage        = TagPrefix + "image"
	KeyVersion      = TagPrefix + "version"
	KeySpec         = TagPrefix + "spec"
	KeyHot          = TagPrefix + "hot"
	KeyHealthySince = TagPrefix + "healthy-since"
	KeyPhase        = TagPrefix + "phase"
	KeyUpstreams    = TagPrefix + "upstreams" // members of other Apps that the instance is bound to, as JSON
	KeyLoading      = TagPrefix + "loading"   // members that it is being bound to, in the form of the former, until that is noted there
	KeyBinding      = TagPrefix + "binding"   // what its hot files are rendered from, as JSON: see renderer.Binding
	KeyTerm         = TagPrefix + "term"
	KeyFloating     = TagPrefix + "floating"  // address that the App's members hold one at a time, with its prefix length, and its router id
	KeyRun          = TagPrefix + "run"       // which run made or took over a candidate
	KeyArguments    = TagPrefix + "arguments" // what the user wrote, for an import; opaque to all but the provider
	KeyVolume       = TagPrefix + "volume"    // of a custom volume: its name within the App
	KeyRetain       = TagPrefix + "retain"    // of a custom volume: "false" where it goes with the App
	KeyCopyOf       = TagPrefix + "copy-of"   // of a custom volume that is to replace one in another pool or node: where that is
	KeyHeld         = TagPrefix + "held"      // of a stopped instance: what it had before its successor took over, as JSON
	KeyFound        = TagPrefix + "found"     // of a member's first instance: the snapshot of what its volumes held before it was started
	KeyCreating     = TagPrefix + "creating"  // of the App's first instance: "true" until the creation is whole
)

// Phase is where an instance stands in its life, or a custom volume that is a copy of another one.
type Phase string

// The phases. That an active instance has been replaced is not written on it (it gets no write before the switch, and
// needs none after): it follows from an active one of a higher generation.
const (
	Candidate Phase = "candidate" // created, not (yet) promoted
	Active    Phase = "active"    // promoted
	Copying   Phase = "copying"   // of a volume only: not known to have all that its source has
)

// Tags is what we write on an instance.
type Tags struct {
	App          string
	Type         string
	Member       string
	Generation   int
	Image        string // fingerprint of the image it was made from
	Version      string // of the software, empty where unknown
	Spec         string // hash of what takes a new generation to change
	Hot          string // hash of what can be changed in place
	HealthySince time.Time
	Phase        Phase
	Term         int64 // of the lease that made it; 0 without one
}

// Config returns the tags as configuration keys.
func (t Tags) Config() map[string]string {
	config := map[string]string{
		KeyApp:        t.App,
		KeyType:       t.Type,
		KeyMember:     t.Member,
		KeyGeneration: strconv.Itoa(t.Generation),
		KeyImage:      t.Image,
		KeyVersion:    t.Version,
		KeySpec:       t.Spec,
		KeyHot:        t.Hot,
		KeyPhase:      string(t.Phase),
	}
	if !t.HealthySince.IsZero() {
		config[KeyHealthySince] = t.HealthySince.UTC().Format(time.RFC3339Nano)
	}
	if t.Term != 0 {
		config[KeyTerm] = strconv.FormatInt(t.Term, 10)
	}
	return config
}

// ParseTags reads the tags from an instance's configuration. ok is false where the instance isn't ours; an error says
// which tag of one of ours can't be read.
func ParseTags(config map[string]string) (tags Tags, ok bool, err error) {
	tags = Tags{
		App: config[KeyApp], Type: config[KeyType], Member: config[KeyMember], Image: config[KeyImage],
		Version: config[KeyVersion], Spec: config[KeySpec], Hot: config[KeyHot], Phase: Phase(config[KeyPhase]),
	}
	if tags.App == "" {
		return Tags{}, false, nil
	}
	if tags.Generation, err = strconv.Atoi(config[KeyGeneration]); err != nil || tags.Generation < 0 {
		return tags, true, fmt.Errorf("%s is %q, not a generation", KeyGeneration, config[KeyGeneration])
	}
	if tags.Member == "" {
		return tags, true, fmt.Errorf("%s is empty", KeyMember)
	}
	switch tags.Phase {
	case Candidate, Active:
	default:
		return tags, true, fmt.Errorf("%s is %q, not a phase", KeyPhase, tags.Phase)
	}
	if text := config[KeyHealthySince]; text != "" {
		if tags.HealthySince, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return tags, true, fmt.Errorf("%s is %q, not a time", KeyHealthySince, text)
		}
	}
	if text := config[KeyTerm]; text != "" {
		if tags.Term, err = strconv.ParseInt(text, 10, 64); err != nil {
			return tags, true, fmt.Errorf("%s is %q, not a term", KeyTerm, text)
		}
	}
	return tags, true, nil
}

// OurKey tells whether a configuration key is one of ours, so that nobody else's is ever written or removed.
func OurKey(key string) bool { return strings.HasPrefix(key, TagPrefix) }
