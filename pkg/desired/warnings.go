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

// Warnings returns the warnings that follow from objects alone: objects over a limit, parts of
// policies that cannot be expressed, and addresses that are contested or that no pod can have. A
// warning may come several times.
func (d *State) Warnings() (out []state.Warning) {
	for _, p := range d.local {
		for _, s := range p.selected {
			if p.cut == 0 && !p.closed && !p.silent && len(s.views) == 0 {
				continue // nothing is over a limit
			}
			for _, message := range d.excesses(p, s.policyState) {
				object, kind := ObjectOf(s.Key)
				out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonOverBudget, Message: message})
			}
		}
	}
	if len(d.members.over) > 0 {
		out = append(out, d.budgetWarnings()...)
	}
	if len(d.contested)+len(d.misplaced) > 0 {
		out = append(out, d.addressWarnings()...)
	}
	for key := range d.problems {
		out = append(out, d.policies[key].warnings...)
	}
	return out
}

// Needing returns the active policies that mention a set, or a set that contains it.
func (d *State) Needing(n ipsets.Name) (keys []policy.Key) {
	for _, p := range d.local {
		for _, ps := range p.selected {
			if !slices.Contains(keys, ps.Key) && d.needs(ps.Sets, n) {
				keys = append(keys, ps.Key)
			}
		}
	}
	return keys
}

// needs reports whether a set is among definitions, or in one of them.
func (d *State) needs(defs []policy.SetDef, n ipsets.Name) bool {
	return slices.ContainsFunc(defs, func(def policy.SetDef) bool {
		return def.Name == n || def.Name.Nested() && d.cache.HasMember(def.Name, n)
	})
}

// namedRivals is the number of claimants of an address that a warning names.
const namedRivals = 4

// RemotePod is the Kind of warnings about pods of other nodes. The agents of all nodes have these
// warnings.
const RemotePod = "RemotePod"

// maxElsewhere bounds the number of warnings about contested addresses of other nodes.
const maxElsewhere = 64

// addressWarnings returns a warning for each contested address, and for each local pod with an
// address that no pod can have. If pods of other nodes contest more than maxElsewhere addresses,
// the last of their warnings also says how many are left out.
func (d *State) addressWarnings() []state.Warning {
	var here, remote []state.Warning
	more := 0
	for _, addr := range slices.SortedFunc(maps.Keys(d.contested), netip.Addr.Compare) {
		s := d.whose(addr)
		claimed := fmt.Sprintf("address %s is claimed by %s: ", addr, d.rivals(addr))
		const find = "kubectl get pods -A -o wide"
		switch {
		case len(s.Home) > 0 && !s.Home[0].Deleting:
			follows := fmt.Sprintf("it counts as that of %s, which runs here", s.Owner.Key())
			if s.Doubt {
				follows = "until only one of them claims it, the address is in no set, and its endpoint is blocked as the policies of each of them say"
			}
			here = append(here, contestedWarning("Pod", s.Home[0].Key(), claimed+follows+"; find out who reports it wrongly: "+find))
		case !elsewhere(s) || !s.Doubt:
		case len(remote) == maxElsewhere:
			more++
		default:
			remote = append(remote, contestedWarning(RemotePod, s.Owner.Key(),
				claimed+"until only one of them claims it, it is in no set, so policies of this node allow none of them; find out which one reports it wrongly: "+find))
		}
	}
	if more > 0 {
		remote[maxElsewhere-1].Message += fmt.Sprintf(" (and %d more addresses are contested)", more)
	}
	impossible := slices.Collect(maps.Keys(d.misplaced))
	for _, addr := range d.nodeAddrs {
		claims := d.owners[addr]
		if i := slices.IndexFunc(claims, func(p *PodState) bool { return p.Local }); i >= 0 {
			impossible = append(impossible, claims[i].Key())
		}
	}
	for _, key := range impossible {
		here = append(here, contestedWarning("Pod", key,
			fmt.Sprintf("the pod reports address %s, which no pod can have: it is in no set and no policy is enforced on it; find out who reports it", d.members.pod(key).Addr)))
	}
	return append(here, remote...)
}

func contestedWarning(kind string, pod PodKey, message string) state.Warning {
	return state.Warning{Object: pod.String(), Kind: kind, Reason: state.ReasonAddressContested, Message: message}
}

// rivals names the pods that claim an address, strongest claim first.
func (d *State) rivals(addr netip.Addr) string {
	all := d.owners.live(addr)
	names := make([]string, min(len(all), namedRivals))
	for i, p := range all[:len(names)] {
		if names[i] = p.Key().String(); !p.Local {
			names[i] += " (on another node)"
		}
	}
	text := strings.Join(names, ", ")
	if more := len(all) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// budgetWarnings returns one warning for each Namespace that is over its budget, and one for all such
// pods of a namespace.
func (d *State) budgetWarnings() (out []state.Warning) {
	pods := map[string][]string{}
	for key, excess := range d.members.over {
		if key.Name != "" {
			pods[key.Namespace] = append(pods[key.Namespace], key.Name)
			continue
		}
		out = append(out, state.Warning{Object: key.Namespace, Kind: "Namespace", Reason: state.ReasonOverBudget,
			Message: fmt.Sprintf("it has %s: no namespaceSelector matches it", excess)})
	}
	for namespace, names := range pods {
		first := PodKey{namespace, slices.Min(names)}
		message := fmt.Sprintf("it has %s: it is in no set, and closed in both directions", d.members.over[first])
		if n := len(names) - 1; n > 0 {
			message += fmt.Sprintf("; so are %d more pods of the namespace", n)
		}
		out = append(out, state.Warning{Object: first.String(), Kind: "Pod", Reason: state.ReasonOverBudget, Message: message})
	}
	return out
}
