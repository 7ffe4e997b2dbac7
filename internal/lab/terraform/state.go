package terraform

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
)

// Member is a member of an App as the state has it.
type Member struct {
	Instance string `json:"instance"`
	Node     string `json:"node"`
	Version  string `json:"version"`
	Status   string `json:"status"`
}

// Members reads the members of every App in the state, by the App's name and the member's key.
func (w *Workspace) Members(ctx context.Context) (map[string]map[string]Member, error) {
	cmd := w.Command(ctx, "show", "-json", "-no-color")
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("terraform show: %w", err)
	}
	var state struct {
		Values struct {
			RootModule struct {
				Resources []struct {
					Type   string `json:"type"`
					Values struct {
						Name    string            `json:"name"`
						Members map[string]Member `json:"members"`
					} `json:"values"`
				} `json:"resources"`
			} `json:"root_module"`
		} `json:"values"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, fmt.Errorf("read what terraform show printed: %w", err)
	}
	all := map[string]map[string]Member{}
	for _, r := range state.Values.RootModule.Resources {
		if r.Type == "homelabops_app" {
			all[r.Values.Name] = r.Values.Members
		}
	}
	return all, nil
}

// Line writes the members of one App as "web-0-g1 (1.1.0), web-1-g1 (1.1.0)".
func Line(members map[string]Member) string {
	var all []string
	for _, m := range members {
		all = append(all, fmt.Sprintf("%s (%s)", m.Instance, m.Version))
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}
