package desired

import (
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// OverBudget returns a warning for each kind and namespace that has objects over a
// budget, and for each policy whose named ports, ACLs on a pod or members are.
func (d *State) OverBudget() []state.Warning {
	out := slices.AppendSeq(d.members.over.warnings(), maps.Values(d.namedPorts.over))
	return slices.Concat(out, d.closedWarnings(), d.crowded())
}

// WarnOfTexts appends what the texts of policies have and cannot be expressed.
func (d *State) WarnOfTexts(out []state.Warning) []state.Warning {
	for key := range d.problems {
		out = append(out, d.policies[key].warnings...)
	}
	for _, cs := range d.clusters {
		out = append(out, cs.warnings...)
	}
	return out
}

// Needing returns, for each of these sets, the active policies that mention it, or a set
// that contains it.
func (d *State) Needing(sets map[ipsets.Name]bool) map[ipsets.Name][]policy.Key {
	if len(sets) == 0 {
		return nil
	}
	out := make(map[ipsets.Name][]policy.Key, len(sets))
	for n := range sets {
		out[n] = nil
		for _, p := range d.local {
			for _, ps := range p.selected {
				if !slices.Contains(out[n], ps.Key) && d.needs(ps.Sets, n) {
					out[n] = append(out[n], ps.Key)
				}
			}
			for _, s := range p.clusters {
				if key := state.ClusterKey(s.policy.Name); !slices.Contains(out[n], key) && d.needs(s.policy.Sets, n) {
					out[n] = append(out[n], key)
				}
			}
		}
	}
	return out
}

// needs reports whether a set is among definitions, or in one of them.
func (d *State) needs(defs []policy.SetDef, n ipsets.Name) bool {
	return slices.ContainsFunc(defs, func(def policy.SetDef) bool {
		return def.Name == n || def.Name.Nested() && d.cache.HasMember(def.Name, n)
	})
}
