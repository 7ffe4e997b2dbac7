package rollout

import (
	"errors"
	"fmt"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// CheckVolumeChange tells which volumes can't become what they are to be: none is made smaller under its data, and one of all
// members does not move. It is pure; what a server really has is checked again before the first write.
func CheckVolumeChange(before, after renderer.App) []error {
	var all []error
	for _, v := range after.Volumes {
		was, had := before.Volume(v.Name)
		if !had {
			continue
		}
		if _, err := larger(v.Size, was.Size); errors.Is(err, ErrRefused) {
			all = append(all, fmt.Errorf("volume %q would shrink from %s to %s, and a file system can't be made smaller under its data: volumes are only ever grown", v.Name, was.Size, v.Size))
		}
		if v.Shared && v.Pool != was.Pool && v.Pool != "" && was.Pool != "" {
			all = append(all, fmt.Errorf("volume %q of all members is in pool %q, and its data would stay behind there: write pool = %q again. To move it, add a volume of another name in %q, copy the data, and then take the old one out", v.Name, was.Pool, was.Pool, v.Pool))
		}
		if v.Shared != was.Shared {
			all = append(all, fmt.Errorf("volume %q can't become %s: its data would stay behind. Add a volume of another name, copy the data, and then take the old one out", v.Name, map[bool]string{true: "one for all members", false: "one for each member"}[v.Shared]))
		}
	}
	return all
}
