package postgres

import (
	"fmt"
	"maps"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Once a cluster is there, its members take what they share from etcd, where Patroni keeps it, and no longer from their
// files. It is changed through Patroni's API, and only where it differs: what others have set beside it stays.

// coldWanted is what an App wants of the settings that all members share and read at a start.
func coldWanted(a renderer.App) map[string]string {
	return sortSettings(a.Params.Texts("postgresql")).shared
}

// wanted is all that an App wants of the cluster-wide configuration.
func wanted(a renderer.App) object {
	all := clusterConfig(a)
	parameters := coldWanted(a)
	maps.Copy(parameters, sortSettings(a.Params.Texts("postgresql")).sharedHot)
	all["postgresql"] = object{"parameters": parameters}
	return all
}

// patch returns what makes the configuration as it is the wanted one, nil where it is. Of PostgreSQL's settings those that
// are named are this type's: one that is not wanted any more is removed, so that its default counts.
func patch(is, want object, named []string) object {
	change := object{}
	for key, value := range want {
		if key != "postgresql" && !same(is[key], value) {
			change[key] = value
		}
	}
	of := func(config object) map[string]string {
		texts := map[string]string{}
		server, _ := config["postgresql"].(object)
		switch parameters := server["parameters"].(type) {
		case map[string]string:
			maps.Copy(texts, parameters)
		case object:
			for name, value := range parameters {
				texts[name] = fmt.Sprint(value)
			}
		}
		return texts
	}
	have, parameters := of(is), object{}
	for name, value := range of(want) {
		if old, ok := have[name]; slices.Contains(named, name) && (!ok || old != value) {
			parameters[name] = value
		}
	}
	for name := range have {
		if _, keep := of(want)[name]; slices.Contains(named, name) && !keep {
			parameters[name] = nil
		}
	}
	if len(parameters) > 0 {
		change["postgresql"] = object{"parameters": parameters}
	}
	if len(change) == 0 {
		return nil
	}
	return change
}

// same compares values of which one has been through JSON.
func same(a, b any) bool { return a != nil && fmt.Sprint(a) == fmt.Sprint(b) }

// sharedSettings are all settings that a cluster has in common.
func sharedSettings() []string { return append(slices.Clone(shared), sharedHot) }
