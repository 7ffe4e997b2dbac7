package postgres

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// own are the parameters that a member may have otherwise than the others. The rest is the cluster's, or is used for all
// members by who asks them.
var own = []string{"postgresql", "pg_hba", "max_lag"}

// Accord implements renderer.Accorder.
func (r Renderer) Accord(a, of renderer.App) error {
	for _, p := range r.Type().Params {
		if !slices.Contains(own, p.Name) && !reflect.DeepEqual(a.Params[p.Name], of.Params[p.Name]) {
			return fmt.Errorf("all members share %s: write it in params of the App", p.Name)
		}
	}
	all, its := sortSettings(a.Params.Texts("postgresql")), sortSettings(of.Params.Texts("postgresql"))
	for _, name := range append(slices.Clone(shared), sharedHot) {
		if all.shared[name] != its.shared[name] || all.sharedHot[name] != its.sharedHot[name] {
			return fmt.Errorf("all members share the setting %s: write it in params.postgresql of the App (a member's own postgresql is in its place, and has to hold it too)", name)
		}
	}
	if !maps.Equal(a.Secrets, of.Secrets) {
		return errors.New("all members share the passwords: write them without a member's name in secrets_wo")
	}
	return nil
}
