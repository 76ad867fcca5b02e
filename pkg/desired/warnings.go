package desired

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// OverBudget returns a warning for each kind and namespace that has objects over a
// limit, and for each policy whose named ports or ACLs on a pod are.
func (d *State) OverBudget() []state.Warning {
	return append(d.members.over.warnings(), d.policyWarnings()...)
}

// WarnOfTexts appends what the texts of policies have and cannot be expressed.
func (d *State) WarnOfTexts(out []state.Warning) []state.Warning {
	for key := range d.problems {
		out = append(out, d.policies[key].warnings...)
	}
	return out
}

// Needing returns, for each of these sets, the active policies that mention it, or a set
// that contains it.
func (d *State) Needing(sets []ipsets.Name) map[ipsets.Name][]policy.Key {
	if len(sets) == 0 {
		return nil
	}
	out := make(map[ipsets.Name][]policy.Key, len(sets))
	for _, n := range sets {
		out[n] = nil
		for _, p := range d.local {
			for _, ps := range p.selected {
				if !slices.Contains(out[n], ps.Key) && d.needs(ps.Sets, n) {
					out[n] = append(out[n], ps.Key)
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

// namedRivals is how many of those who claim an address a warning names.
const namedRivals = 4

// AddressWarnings tells of the addresses of local pods that others claim too,
// and of local pods with an address that is nobody's: one warning each, so the local
// pods bound them.
func (d *State) AddressWarnings() []state.Warning {
	var out []state.Warning
	for addr := range d.contested {
		s := d.whose(addr)
		follows := fmt.Sprintf("it counts as that of %s, which runs here", s.Owner.Key())
		if s.Doubt {
			follows = "until only one of them claims it, the address is in no set, and its endpoint is blocked as the policies of each of them say"
		}
		out = append(out, state.Warning{Object: s.Home[0].Key().String(), Kind: "Pod", Reason: state.ReasonAddressContested,
			Message: fmt.Sprintf("address %s is claimed by %s: %s; find out who reports it wrongly: kubectl get pods -A -o wide", addr, d.rivals(addr), follows)})
	}
	out = append(out, d.elsewhereWarnings()...)
	nobodys := slices.Collect(maps.Keys(d.misplaced))
	for _, addr := range d.nodeAddrs {
		if home := d.owners.Ownership(addr).Home; len(home) > 0 {
			nobodys = append(nobodys, home[0].Key())
		}
	}
	for _, key := range nobodys {
		out = append(out, state.Warning{Object: key.String(), Kind: "Pod", Reason: state.ReasonAddressContested,
			Message: fmt.Sprintf("the pod reports address %s, which no pod can have: it is in no set and no policy is enforced on it; find out who reports it", d.members.pod(key).Addr)})
	}
	return out
}

// RemotePod is the Kind of warnings about pods of other nodes. The agents of all nodes have these
// warnings.
const RemotePod = "RemotePod"

// maxElsewhere bounds the number of warnings about contested addresses of other nodes.
const maxElsewhere = 64

// elsewhereWarnings returns one warning for each address that pods of other nodes contest. If there
// are more than maxElsewhere, the last warning also says how many are left out.
func (d *State) elsewhereWarnings() []state.Warning {
	var out []state.Warning
	more := 0
	for _, addr := range slices.SortedFunc(maps.Keys(d.elsewhere), netip.Addr.Compare) {
		s := d.whose(addr)
		switch {
		case !s.Doubt:
		case len(out) == maxElsewhere:
			more++
		default:
			out = append(out, state.Warning{Object: s.Owner.Key().String(), Kind: RemotePod, Reason: state.ReasonAddressContested,
				Message: fmt.Sprintf("address %s is claimed by %s: until only one of them claims it, it is in no set, so policies of this node allow none of them; find out which one reports it wrongly: kubectl get pods -A -o wide", addr, d.rivals(addr))})
		}
	}
	if more > 0 {
		out[maxElsewhere-1].Message += fmt.Sprintf(" (and %d more addresses are contested)", more)
	}
	return out
}

// rivals names who claims an address, the strongest first.
func (d *State) rivals(addr netip.Addr) string {
	few, all := d.owners.Rivals(addr, namedRivals)
	names := make([]string, len(few))
	for i, p := range few {
		if names[i] = p.Key().String(); !p.Local {
			names[i] += " (on another node)"
		}
	}
	text := strings.Join(names, ", ")
	if more := all - len(few); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
