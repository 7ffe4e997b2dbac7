package rollout

import (
	"fmt"

	"github.com/homelabops/terraform-provider-homelabops/internal/app"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// ClassOf returns the class that an App really has, and what makes it so: an App whose type may overlap can't where its
// configuration holds something that one instance only can have.
func ClassOf(r renderer.Renderer, a renderer.App) (app.Class, []string) {
	class := r.Type().Class
	if c, ok := r.(renderer.Classer); ok {
		class = c.Class(a)
	}
	held := Held(a)
	if class.Atomic() && len(held) > 0 {
		return app.ExclusiveHolder, held
	}
	return class, held
}

// Held names what of an App one instance only can have: scarce devices, volumes that somebody has made devices of among them, and
// the App's own volumes that are not made to be shared.
func Held(a renderer.App) []string {
	var held []string
	for _, s := range app.ScarceIn(a.Devices) {
		held = append(held, s.String())
	}
	for _, v := range a.Volumes {
		if !v.Shared || v.ShareSafe == "" {
			held = append(held, fmt.Sprintf("volume %s (at %s)", v.Name, v.Path))
		}
	}
	return held
}
