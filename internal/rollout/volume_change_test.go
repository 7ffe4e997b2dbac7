package rollout

import (
	"strings"
	"testing"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

func TestVolumesAreOnlyEverGrown(t *testing.T) {
	of := func(v renderer.Volume) renderer.App {
		v.Name, v.Path = "data", "/data"
		return renderer.App{Volumes: []renderer.Volume{v}}
	}
	for name, one := range map[string]struct {
		before, after renderer.App
		want          string
	}{
		"the same":         {of(renderer.Volume{Size: "1GiB"}), of(renderer.Volume{Size: "1GiB"}), ""},
		"another notation": {of(renderer.Volume{Size: "1GiB"}), of(renderer.Volume{Size: "1024MiB"}), ""},
		"larger":           {of(renderer.Volume{Size: "1GiB"}), of(renderer.Volume{Size: "2GiB"}), ""},
		"no size any more": {of(renderer.Volume{Size: "1GiB"}), of(renderer.Volume{}), ""},
		"new":              {renderer.App{}, of(renderer.Volume{Size: "1GiB"}), ""},
		"smaller":          {of(renderer.Volume{Size: "1GiB"}), of(renderer.Volume{Size: "1GB"}), "from 1GiB to 1GB"},
		"another pool":     {of(renderer.Volume{Pool: "a"}), of(renderer.Volume{Pool: "b"}), ""},
		"shared, moved":    {of(renderer.Volume{Pool: "a", Shared: true}), of(renderer.Volume{Pool: "b", Shared: true}), `pool "a"`},
		"shared":           {of(renderer.Volume{}), of(renderer.Volume{Shared: true}), "one for all members"},
	} {
		t.Run(name, func(t *testing.T) {
			var texts []string
			for _, err := range CheckVolumeChange(one.before, one.after) {
				texts = append(texts, err.Error())
			}
			if got := strings.Join(texts, "; "); one.want == "" && got != "" || !strings.Contains(got, one.want) {
				t.Errorf("got %q, want %q", got, one.want)
			}
		})
	}
}
