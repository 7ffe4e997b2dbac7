package app

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"

	domain "github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/sentence"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
	"github.com/homelabops/terraform-provider-homelabops/internal/rollout"
)

// overridable is what a single member may have otherwise than its App.
var overridable = []string{"environment", "files", "params"}

// environmentParam and fileParams have the form of the arguments environment and files. A value of any type can't have
// the schema's own checks.
var (
	environmentParam = []renderer.Param{{Name: "environment", Kind: renderer.Texts}}
	fileParams       = []renderer.Param{
		{Name: "content", Kind: renderer.String, Required: true, Description: "the file's content."},
		{Name: "mode", Kind: renderer.String, Check: checkOctal},
		{Name: "uid", Kind: renderer.Int, Check: checkOwner},
		{Name: "gid", Kind: renderer.Int, Check: checkOwner},
	}
)

func checkOctal(v any) error {
	if _, err := strconv.ParseUint(v.(string), 8, 12); err != nil || strings.Trim(v.(string), "0") == "" {
		return errors.New(`must be octal text such as "0644"`)
	}
	return nil
}

func checkOwner(v any) error {
	if v.(int64) < 0 {
		return errors.New("must be 0 or more")
	}
	return nil
}

// readPerMember reads what single members have otherwise than the App, whose own parameters are given as the user wrote
// them.
func (d *draft) readPerMember(m model, found renderer.Renderer, given map[string]any) {
	unknown := map[string]bool{}
	value := native("per_member", m.PerMember, unknown)
	if len(unknown) > 0 {
		d.NotKnown("per_member")
	}
	entries, ok := value.(map[string]any)
	if !ok {
		if _, is := value.(unknownValue); !is && value != nil {
			d.Refuse(path.Root("per_member"), "Wrong type", "per_member takes an object of members, such as { m1 = { environment = { ROLE = \"first\" } } }.")
		}
		return
	}
	d.checkKeys("per_member", slices.SortedFunc(maps.Keys(entries), domain.CompareKeys))
	d.wish.PerMember = map[string]rollout.Override{}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if entries[key] == nil {
			continue // nothing otherwise, as an expression with a condition may say
		}
		o := override{draft: d, key: key}
		fields, ok := entries[key].(map[string]any)
		if !ok {
			o.refuse("", "Wrong type", "a member takes an object with %s.", listed(overridable))
			continue
		}
		o.read(fields, found, given)
		d.wish.PerMember[key] = o.Override
	}
}

// override is what one member has otherwise, while it is read.
type override struct {
	rollout.Override
	draft *draft
	key   string
}

// refuse reports a problem. Terraform can't point into a value of any type, so that the text says where.
func (o *override) refuse(at, summary, format string, args ...any) {
	where := fmt.Sprintf("per_member[%q]%s", o.key, at)
	o.draft.Refuse(path.Root("per_member"), summary, "%s: %s", where, fmt.Sprintf(format, args...))
}

// add takes over problems that were found in an object at a place of the member.
func (o *override) add(at string, problems []renderer.Problem) {
	for _, p := range problems {
		if p.Summary == "Missing parameter" && !o.draft.Known("params", "per_member") {
			continue // it is given, but not known yet
		}
		o.refuse(at+strings.TrimPrefix(p.Path, "params"), p.Summary, "%s", p.Detail)
	}
}

func (o *override) read(fields map[string]any, found renderer.Renderer, given map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(overridable, name) {
			o.refuse("."+name, "Unknown argument", "a member can't have its own %q. It takes %s.", name, listed(overridable))
		}
	}
	checked, problems := renderer.CheckParams(environmentParam, map[string]any{"environment": fields["environment"]})
	o.add("", problems)
	o.Environment = checked.Texts("environment")
	o.readFiles(fields["files"])
	switch params := fields["params"].(type) {
	case nil:
	case map[string]any:
		merged := maps.Clone(given)
		if merged == nil {
			merged = map[string]any{}
		}
		maps.Copy(merged, params)
		checked, problems := renderer.CheckParams(found.Type().Params, merged)
		if len(o.draft.Problems()) == 0 {
			o.add(".params", problems) // otherwise they may be the App's own
		}
		o.Params = checked
	default:
		o.refuse(".params", "Wrong type", "params takes an object of parameters, such as { port = 8080 }.")
	}
}

func (o *override) readFiles(value any) {
	if value == nil {
		return
	}
	files, ok := value.(map[string]any)
	if !ok {
		o.refuse(".files", "Wrong type", "files takes an object of files by path, such as { \"/etc/motd\" = { content = \"hello\" } }.")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		at := fmt.Sprintf(".files[%q]", name)
		fields, ok := files[name].(map[string]any)
		if !ok {
			o.refuse(at, "Wrong type", "a file takes an object with content, mode, uid and gid.")
			continue
		}
		checked, problems := renderer.CheckParams(fileParams, fields)
		o.add(at, problems)
		mode, err := strconv.ParseInt(checked.String("mode"), 8, 32)
		if err != nil {
			mode = 0 // not set, or reported
		}
		o.Files = append(o.Files, renderer.File{Path: name, Content: checked.String("content"), Mode: int(mode), UID: checked.Int("uid"), GID: checked.Int("gid")})
	}
}

// checkMembers checks each member that has something otherwise as a whole.
func (d *draft) checkMembers() {
	for _, key := range slices.Sorted(maps.Keys(d.wish.PerMember)) {
		o := override{draft: d, key: key}
		for _, p := range renderer.Check(d.renderer, d.wish.AppOf(key)) {
			o.refuse("."+p.Path, p.Summary, "%s", p.Detail)
		}
	}
	d.checkAccord("per_member")
}

// checkAccord refuses what one member has otherwise by an argument and all must have alike.
func (d *draft) checkAccord(argument string) {
	accorder, ok := d.renderer.(renderer.Accorder)
	if !ok {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(d.wish.PerMember)) {
		if err := accorder.Accord(d.wish.App, d.wish.AppOf(key)); err != nil {
			d.Refuse(path.Root(argument), "Members differ", "Member %q: %s", key, sentence.Of(err))
		}
	}
}

// checkKeys refuses what is no member. Of a per-node App a key may be that of a node which is away and has dropped out of
// a list of online ones: whether that is so takes more than the configuration.
func (d *draft) checkKeys(argument string, keys []string) {
	if !d.Known("replicas", "nodes") || len(d.members()) == 0 {
		return
	}
	for _, key := range keys {
		switch {
		case slices.Contains(d.members(), key):
		case d.wish.Replicas.PerNode:
			d.strangers = append(d.strangers, stranger{argument, key})
		default:
			d.refuseKey(argument, key)
		}
	}
}

// stranger is a key of an argument that names none of nodes.
type stranger struct{ argument, key string }

func (d *draft) refuseKey(argument, key string) {
	d.Refuse(path.Root(argument), "Unknown member", "%s[%q]: the App has no such member. Its members are %s.", argument, key, listed(d.members()))
}

// members are the keys of the App's members.
func (d *draft) members() []string {
	var keys []string
	for _, m := range d.wish.Members() {
		keys = append(keys, m.Key)
	}
	return keys
}

var plainWord = regexp.MustCompile(`^[A-Za-z_]+$`)

// listed writes names for a sentence, those that may be taken for something else in quotes, and of many the first and the
// last.
func listed(names []string) string {
	var all []string
	for _, name := range names {
		if !plainWord.MatchString(name) {
			name = strconv.Quote(name)
		}
		all = append(all, name)
	}
	switch n := len(all); {
	case n == 0:
		return "none"
	case n == 1:
		return all[0]
	case n > 8:
		return fmt.Sprintf("%s, %s, … and %s", all[0], all[1], all[n-1])
	default:
		return strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	}
}
