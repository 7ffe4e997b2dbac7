package rollout

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Sentinels, one for each way a run ends that a caller may want to tell apart. Match with errors.Is.
var (
	// ErrRefused: the change is not made, by a rule; nothing was touched.
	ErrRefused = errors.New("refused")
	// ErrExists: the name is in use by an App or instance that is not this resource's.
	ErrExists = errors.New("name in use")
	// ErrStale: what the server shows has moved on since the plan was made; nothing was touched.
	ErrStale = errors.New("plan is stale")
	// ErrGate: a candidate was not healthy for long enough before the deadline.
	ErrGate = errors.New("gate timed out")
	// ErrSettle: an instance failed after its promotion, within the settle time.
	ErrSettle = errors.New("failed while settling")
	// ErrReverted: the roll-out failed and all members are back on what they ran before.
	ErrReverted = errors.New("reverted")
	// ErrRevertFailed: the roll-out failed and so did going back, at least in part.
	ErrRevertFailed = errors.New("revert failed")
	// ErrBusy: another run works on this App.
	ErrBusy = errors.New("lease held")
	// ErrImage: the image can't be had.
	ErrImage = errors.New("image not available")
	// ErrAway: the node of an instance can't be reached, while the server answers. It counts as incus.ErrUnreachable too.
	ErrAway error = awayError{}
)

type awayError struct{}

func (awayError) Error() string { return "node is away" }

func (awayError) Is(target error) bool { return target == incus.ErrUnreachable }

// Failure is the end of a run that did not reach its goal: what failed, on which instance, and what state things are in.
type Failure struct {
	Kind     error    // one of the sentinels
	App      string   //
	Instance string   // empty where the failure belongs to none
	Doing    string   // what was attempted, as in "gate web-0-g1"
	Cause    error    // what was last seen
	Now      []string // sentences on the state things are in
	Advice   string   // what to do next
}

// Error implements error.
func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "App %q: %s", f.App, f.Doing)
	if f.Cause != nil {
		fmt.Fprintf(&b, ": %s", f.Cause)
	}
	for _, now := range f.Now {
		fmt.Fprintf(&b, "\n%s", now)
	}
	if f.Advice != "" {
		fmt.Fprintf(&b, "\n%s", f.Advice)
	}
	return b.String()
}

// Unwrap gives errors.Is the kind and the cause.
func (f *Failure) Unwrap() []error {
	if f.Cause == nil {
		return []error{f.Kind}
	}
	return []error{f.Kind, f.Cause}
}

// terminal marks an error that waiting doesn't mend.
type terminal struct{ error }

func (t terminal) Unwrap() error { return t.error }

func isTerminal(err error) bool {
	var t terminal
	return errors.As(err, &t) || errors.Is(err, renderer.ErrTerminal)
}

// joined writes names for a sentence, sorted.
func joined(names []string) string {
	sorted := append([]string(nil), names...)
	sort.Strings(sorted)
	return strings.Join(sorted, ", ")
}

// quoted writes the names of Apps for a sentence.
func quoted(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, strconv.Quote(name))
	}
	return strings.Join(all, ", ")
}
