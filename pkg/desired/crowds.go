package desired

import (
	"cmp"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
	"github.com/winnpm/winnpm/pkg/state"
)

// What the selectors of one namespace's policies match is bounded, as each member is
// in memory and in HNS, and a selector of a few bytes may match every pod there is.
// Weighed are the computed sets of pods and the sets of namespaces. Label and
// namespace sets are not: all policies share them, so the labels of the pods bound
// them. The policies with the most weighed sets close until the others fit: they
// isolate what they select, and allow nothing. Their order follows from their texts.

// weightOfSet is what a weighed set costs besides its members, in members: every pod
// is asked whether it belongs to it.
const weightOfSet = 256

// weight is what the sets of a policy weigh; it counts no further than limit. Of sets
// that are not there it asks every pod that they look at, or with bound takes all of
// them for members.
func (m *members) weight(defs []policy.SetDef, limit int, bound bool) (sum int) {
	for _, def := range defs {
		if !weighed(def.Name) {
			continue
		}
		if sum += weightOfSet + m.membersOf(def, bound); sum > limit {
			return sum
		}
	}
	return sum
}

// membersOf counts the members that a set has or would have; bound is as in weight.
func (m *members) membersOf(def policy.SetDef, bound bool) (n int) {
	switch nested := def.Name.Nested(); {
	case m.cache.Has(def.Name):
		return m.cache.Len(def.Name)
	case nested && bound:
		return len(m.namespaces)
	case nested:
		for _, ns := range m.namespaces {
			n += count(ns.OverBudget == "" && def.Namespaces.Matches(ns.Labels))
		}
		return n
	case bound && def.Namespace == "":
		return len(m.pods)
	}
	for k := range m.scope(def.Namespace) {
		if !bound && !def.Pods.Matches(k.labels) {
			continue
		}
		for _, p := range k.pods {
			n += count(bound || p.inSets())
		}
	}
	return n
}

// admit decides which policies of a namespace that select a local pod have their
// sets: those with the fewest weighed ones first, until the next has no room. It
// compiles those that are new, closes active ones that have no room any more, and
// returns those that are to become active. It costs the sets of the namespace's active
// policies, and the pods for each new set if there may not be room for all; nothing
// behind the first without room is weighed.
func (d *State) admit(namespace string) (came []*policyState) {
	d.progress.Note("weighing", progress.Namespace, "", namespace)
	limit := d.cfg.Budgets.NamespaceMembers
	all, exact := d.candidates(namespace, limit)
	sum := 0
	for _, ps := range all {
		closed := d.crowds.closed[ps]
		if exact && sum <= limit {
			if closed {
				d.compile(ps)
			}
			sum += d.members.weight(ps.Sets, limit-sum, false)
			d.progress.Piece()
		}
		switch {
		case exact && sum > limit:
			d.close(ps)
		case closed:
			delete(d.crowds.closed, ps)
			d.renderSelected(ps)
			fallthrough
		case !ps.active:
			came = append(came, ps)
		}
	}
	return came
}

// candidates returns the policies of a namespace that select a local pod, those with the
// fewest weighed sets first, and whether they are to be weighed exactly: there may not be
// room for all, or there was not before.
func (d *State) candidates(namespace string, limit int) (all []*policyState, exact bool) {
	sum := 0
	for _, ps := range d.byNS[namespace] {
		if ps.selects == 0 {
			continue
		}
		all = append(all, ps)
		if d.crowds.closed[ps] {
			exact = true
			continue
		}
		if !ps.active {
			d.compile(ps)
			ps.weighed = weighedOf(ps.Sets)
		}
		if exact = exact || sum > limit; !exact {
			sum += d.members.weight(ps.Sets, limit, !ps.active)
		}
	}
	slices.SortFunc(all, func(a, b *policyState) int {
		return cmp.Or(cmp.Compare(a.weighed, b.weighed), a.Key.Compare(b.Key))
	})
	return all, exact || sum > limit
}

// close leaves a policy without rules and sets.
func (d *State) close(ps *policyState) {
	d.crowds.closed[ps] = true
	if ps.active {
		d.retire(ps)
		d.renderSelected(ps)
	}
	ps.Rules, ps.Sets, ps.sized = nil, nil, nil
}

// compile gives an idle policy its rules and the definitions of its sets.
func (d *State) compile(ps *policyState) {
	c := policy.Compile(&networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ps.Key.Namespace, Name: ps.Key.Name}, Spec: *ps.spec,
	})
	ps.Rules, ps.Sets, ps.group, ps.sized = c.Rules, c.Sets, nil, nil // closed it had neither rules nor size
	d.progress.Piece()
}

// grown returns the namespaces to be weighed again: all with weighed sets, when
// many members joined such sets since the last time.
func (d *State) grown() map[string]bool {
	due := map[string]bool{}
	if d.members.joined <= d.cfg.Budgets.NamespaceMembers/4 {
		return due
	}
	d.members.joined = 0
	for ns := range d.crowds.sets {
		due[ns] = true
	}
	return due
}

// crowded returns a warning for each policy that has no room.
func (d *State) crowded() []state.Warning {
	if len(d.crowds.closed) == 0 {
		return nil
	}
	message := fmt.Sprintf("what its selectors match, with the other policies of its namespace, is more than %d members (MaxMembersPerNamespace): "+
		"it isolates what it selects and allows nothing. Use matchLabels in place of matchExpressions", d.cfg.Budgets.NamespaceMembers)
	var out []state.Warning
	for ps := range d.crowds.closed {
		out = append(out, state.Warning{Object: ps.Key.String(), Kind: "NetworkPolicy", Reason: state.ReasonOverBudget, Message: message})
	}
	return out
}
