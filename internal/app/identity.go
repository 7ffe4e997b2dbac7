package app

import "strconv"

// Identity tells one instance from every other: what two members would otherwise share is identical.
type Identity struct {
	App        string
	Member     string
	Node       string // cluster member it runs on; empty until the server has chosen
	Instance   string
	Generation int
}

// Environment returns the identity as the workload sees it.
func (id Identity) Environment() map[string]string {
	return map[string]string{
		"HOMELABOPS_APP":        id.App,
		"HOMELABOPS_MEMBER":     id.Member,
		"HOMELABOPS_NODE":       id.Node,
		"HOMELABOPS_INSTANCE":   id.Instance,
		"HOMELABOPS_GENERATION": strconv.Itoa(id.Generation),
	}
}
