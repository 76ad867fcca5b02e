package dataplane

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// dumpClusters lists the ClusterNetworkPolicies by name.
func (s *Snapshot) dumpClusters() []state.ClusterPolicy {
	selected := map[*clusterState][]string{}
	for _, p := range s.local {
		for _, by := range p.clusters {
			selected[by.policy] = append(selected[by.policy], p.Key().String())
		}
	}
	var out []state.ClusterPolicy
	for _, cs := range s.clusters {
		pd := state.ClusterPolicy{Name: cs.Name, Selected: append([]string{}, slices.Sorted(slices.Values(selected[cs]))...), Spec: cs.spec}
		for _, p := range cs.Problems {
			pd.Problems = append(pd.Problems, fmt.Sprintf("%s: %s: %s", p.Reason, p.Field, p.Message))
		}
		out = append(out, pd)
	}
	slices.SortFunc(out, func(a, b state.ClusterPolicy) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// dump says what a rule came from.
func (s source) dump() state.TierSource {
	out := state.TierSource{Tier: s.tier.String(), Rule: s.index, Name: s.name}
	if name, is := state.ClusterName(s.key); is {
		out.Policy = name
	} else if s.key.Name != "" {
		out.Policy = s.key.String()
	}
	return out
}

// explainTiers says what each of the rules that are desired came from.
func explainTiers(ed *state.Endpoint, want []hns.ACL, rules []tierRule) {
	from := map[hns.ACL]tierRule{}
	for _, r := range slices.Backward(rules) { // of equal rules the first one decides
		from[r.acl] = r
	}
	for _, a := range want {
		r, is := from[a]
		td := state.TierRule{TierSource: r.from.dump()}
		for _, by := range r.via {
			td.Passed = append(td.Passed, by.dump())
		}
		if is && r.asked != r.acl {
			asked := r.asked.Canonical()
			td.Asked = &asked
		}
		ed.Tiers = append(ed.Tiers, td)
	}
}

// dumpCompromises lists what HNS refuses of a list of tiers.
func (ep *endpoint) dumpCompromises() (out []state.Compromise) {
	for rule, c := range ep.compromises {
		out = append(out, state.Compromise{Rule: rule, Form: c.form, Alone: c.alone, Again: state.Again{At: c.At, Attempts: c.Tries, Code: c.Code}})
	}
	slices.SortFunc(out, func(a, b state.Compromise) int { return cmp.Compare(acl.RuleText(a.Rule), acl.RuleText(b.Rule)) })
	return out
}

// restoreCompromises is the inverse of that.
func (ep *endpoint) restoreCompromises(next state.Next) {
	ep.trial = next.Trial
	for _, cd := range next.Compromises {
		ep.compromises[cd.Rule] = compromise{form: cd.Form, alone: cd.Alone, Again: backoff.Again{Code: cd.Code, Tries: cd.Attempts, At: cd.At}}
	}
}

// objectOfDump returns the policy that was dumped.
func objectOfDump(pd state.ClusterPolicy) *v1alpha2.ClusterNetworkPolicy {
	return &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: pd.Name}, Spec: *pd.Spec}
}
