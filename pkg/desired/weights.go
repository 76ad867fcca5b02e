package desired

import (
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// crowds is what is known of the weights of policies.
type crowds struct {
	closed map[*policyState]bool // that have no room
	sets   map[string]int        // weighed ones of active policies, by namespace
}

// count notes that a policy became active, or is to be no longer.
func (c *crowds) count(ps *policyState, more bool) {
	n := weighedOf(ps.Sets)
	if !more {
		n = -n
	}
	if c.sets[ps.Key.Namespace] += n; c.sets[ps.Key.Namespace] == 0 {
		delete(c.sets, ps.Key.Namespace)
	}
}

// weighedOf returns how many sets of a policy count.
func weighedOf(defs []policy.SetDef) (n int) {
	for _, def := range defs {
		if weighed(def.Name) {
			n++
		}
	}
	return n
}

// weighed reports whether the members of a set count.
func weighed(n ipsets.Name) bool {
	return n.Kind() == ipsets.KindPodSelector || n.Kind() == ipsets.KindNamespaceSelector
}
