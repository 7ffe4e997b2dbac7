package instance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
)

// source is an incus_instance in state: resource incus_instance of the provider lxc/incus, schema version 0, which all of its
// releases have (internal/instance/resource_instance.go there). What some releases don't have is empty. A key without a value
// is one that is unset.
type source struct {
	Name           string             `json:"name"`
	Project        string             `json:"project"`
	Remote         string             `json:"remote"`
	Type           string             `json:"type"`
	Image          string             `json:"image"`
	SourceInstance *json.RawMessage   `json:"source_instance"`
	SourceFile     string             `json:"source_file"`
	Description    string             `json:"description"`
	Ephemeral      bool               `json:"ephemeral"`
	Running        *bool              `json:"running"`
	Profiles       []string           `json:"profiles"`
	Config         map[string]*string `json:"config"`
	Limits         map[string]*string `json:"limits"` // of the first releases
	Devices        []sourceDevice     `json:"device"`
	Files          []sourceFile       `json:"file"`
	WaitFor        []struct {
		Type string `json:"type"`
	} `json:"wait_for"`
}

type sourceDevice struct {
	Name       string             `json:"name"`
	Type       string             `json:"type"`
	Properties map[string]*string `json:"properties"`
}

type sourceFile struct {
	Content    *string `json:"content"`
	SourcePath string  `json:"source_path"`
	TargetPath string  `json:"target_path"`
	UID        *int64  `json:"uid"`
	GID        *int64  `json:"gid"`
	Mode       string  `json:"mode"`
	Append     bool    `json:"append"`
}

// sourceMode is the mode of a file of an incus_instance that names none.
const sourceMode = "0755"

func readSource(version int64, state []byte) (source, error) {
	var s source
	if version != 0 {
		return s, fmt.Errorf("its schema is of version %d, and what that means is not known; 0 is", version)
	}
	return s, json.Unmarshal(state, &s)
}

// instance is the source as the server would show what was written in it.
func (s source) instance() *incus.Instance {
	i := &incus.Instance{
		Name: s.Name, Type: s.Type, Description: s.Description, Ephemeral: s.Ephemeral, Profiles: s.Profiles,
		Config: given(s.Config), Devices: map[string]map[string]string{},
	}
	if s.Profiles == nil {
		i.Profiles = []string{"default"}
	}
	for name, value := range given(s.Limits) {
		i.Config["limits."+name] = value
	}
	for _, device := range s.Devices {
		keys := given(device.Properties)
		keys["type"] = device.Type
		i.Devices[device.Name] = keys
	}
	return i
}

// given are the keys that have a value.
func given(keys map[string]*string) map[string]string {
	all := map[string]string{}
	for key, value := range keys {
		if value != nil && *value != "" {
			all[key] = *value
		}
	}
	return all
}

// carried tells whether all of a file is in state.
func (f sourceFile) carried() bool { return f.SourcePath == "" && !f.Append }

// files are those whose content is in state. none has their type.
func (s source) files(ctx context.Context, none types.Map) types.Map {
	all := map[string]argument.File{}
	for _, f := range s.Files {
		if !f.carried() || s.Type == vm {
			continue
		}
		content := ""
		if f.Content != nil {
			content = *f.Content
		}
		all[f.TargetPath] = argument.File{
			Content: types.StringValue(content), Mode: types.StringValue(cmp.Or(f.Mode, sourceMode)),
			UID: types.Int64PointerValue(f.UID), GID: types.Int64PointerValue(f.GID),
		}
	}
	if len(all) == 0 {
		return none
	}
	value, diags := types.MapValueFrom(ctx, none.ElementType(ctx), all)
	if diags.HasError() {
		return none // can't be: the schema has this very type
	}
	return value
}

// withoutImage says why nothing tells which image the instance was made from; empty where its state does.
func (s source) withoutImage() string {
	const instead = "Import it instead: an import asks the server which image it goes back to"
	switch {
	case s.Image != "":
		return ""
	case s.SourceInstance != nil:
		return "it is a copy of another instance (source_instance), and its state has no image. " + instead
	case s.SourceFile != "":
		return "it was made from a backup (source_file), and its state has no image. " + instead
	}
	return "its state has no image. " + instead
}

// leftBehind says what of the source is carried over nowhere, and what that means.
func (s source) leftBehind() []string {
	var all []string
	if s.Running != nil && !*s.Running {
		all = append(all, "it is stopped (running = false). A homelabops_instance always runs: the first apply starts it.")
	}
	for _, f := range s.Files {
		switch {
		case s.Type == vm:
			all = append(all, fmt.Sprintf("file %s: a virtual machine gets no files. It stays where it is; the next one made from the image has it only if cloud-init brings it.", f.TargetPath))
		case f.SourcePath != "":
			all = append(all, fmt.Sprintf("file %s was read from %s, and its content is not in state. It stays where it is; the next instance made from the image has it only if files brings it.", f.TargetPath, f.SourcePath))
		case f.Append:
			all = append(all, fmt.Sprintf("file %s was appended to. It stays as it is; the next instance made from the image has it only if files brings it.", f.TargetPath))
		}
	}
	if len(s.WaitFor) > 0 {
		all = append(all, "wait_for: when a new instance is ready is told by health and rollout.")
	}
	if s.Remote != "" {
		all = append(all, fmt.Sprintf("remote = %q: the server is the provider's.", s.Remote))
	}
	return all
}
