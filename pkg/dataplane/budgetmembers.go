package dataplane

import (
	"cmp"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// What the selectors of one namespace's policies match is bounded, as each member is
// in memory and in HNS, and a selector of a few bytes may match every pod there is.
// Weighed are the computed sets of pods and the sets of namespaces. Label and
// namespace sets are not: all policies share them, so the labels of the pods bound
// them. The heaviest policies close until the others fit: they isolate what they
// select, and allow nothing.

// weightOfSet is what a weighed set costs besides its members, in members: every pod is
// asked whether it belongs to it.
const weightOfSet = 256

// nodeFloor is what a namespace has of its budget however many members the node has
// for others: this part of it.
const nodeFloor = 40

// crowds is what the members of namespaces come to.
type crowds struct {
	byNS   map[string]int        // of active policies, when they were weighed last
	closed map[*policyState]bool // that have no room
	sets   int                   // weighed ones of active policies
	grown  int                   // members that may have come since all were weighed
}

// weighed reports whether the members of a set count.
func weighed(n ipsets.Name) bool {
	return n.Kind() == ipsets.KindPodSelector || n.Kind() == ipsets.KindNamespaceSelector
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

// weight is what the sets of a policy weigh; it counts no further than limit. Of sets
// that are not there it asks every pod that they look at, or with bound takes all of
// them for members.
func (m *members) weight(defs []policy.SetDef, limit int, bound bool) (sum int) {
	for _, def := range defs {
		if !weighed(def.Name) {
			continue
		}
		sum += weightOfSet
		switch nested := def.Name.Nested(); {
		case m.cache.Has(def.Name):
			sum += m.cache.Len(def.Name)
		case nested && bound:
			sum += len(m.namespaces)
		case nested:
			for _, ns := range m.namespaces {
				if ns.OverBudget == "" && def.Namespaces.Matches(ns.Labels) {
					sum++
				}
			}
		case bound && def.Namespace == "":
			sum += len(m.pods)
		default:
			for k := range m.scope(def.Namespace) {
				if bound || def.Pods.Matches(k.labels) {
					sum += len(k.pods)
				}
			}
		}
		if sum > limit {
			return sum
		}
	}
	return sum
}

// admitLocked decides which policies of a namespace that select a local pod have their
// sets: the lightest first, as long as there is room. It compiles those that are new,
// closes active ones that have no room any more, and returns those that are to become
// active. It costs the sets of the namespace's active policies, and the pods for each
// new set if there may not be room for all. d.mu must be held.
func (d *Dataplane) admitLocked(namespace string) (came []*policyState) {
	d.progress.note("weighing", kindNamespace, "", namespace)
	limit := d.roomLocked(namespace)
	var all, fresh []*policyState
	sum := 0
	for _, ps := range d.byNS[namespace] {
		switch {
		case ps.selects == 0:
			continue
		case ps.active:
			ps.weight = d.members.weight(ps.Sets, limit, false)
		case !d.crowds.closed[ps]:
			d.compileLocked(ps)
			ps.weight = d.members.weight(ps.Sets, limit, true)
			fresh = append(fresh, ps)
		}
		all = append(all, ps)
		sum += ps.weight
	}
	if sum > limit {
		for _, ps := range fresh {
			ps.weight = d.members.weight(ps.Sets, limit, false)
			d.progress.piece()
		}
	}
	slices.SortFunc(all, func(a, b *policyState) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), compareKeys(a.Key, b.Key))
	})
	sum = 0
	for _, ps := range all {
		if sum += ps.weight; sum <= limit {
			if delete(d.crowds.closed, ps); !ps.active {
				came = append(came, ps)
			}
			d.crowds.byNS[namespace] = sum
			continue
		}
		d.crowds.closed[ps] = true
		if ps.active {
			d.retireLocked(ps)
			d.renderSelectedLocked(ps)
		}
		ps.Rules, ps.Sets, ps.sized = nil, nil, nil
	}
	if len(all) == 0 || all[0].weight > limit {
		delete(d.crowds.byNS, namespace)
	}
	return came
}

// roomLocked returns what the policies of a namespace may weigh: its budget, or what
// the node has left. A part of its budget is its own. d.mu must be held.
func (d *Dataplane) roomLocked(namespace string) int {
	b := d.cfg.Budgets
	left := b.NodeMembers
	for ns, weight := range d.crowds.byNS {
		if ns != namespace {
			left -= weight
		}
	}
	return min(b.NamespaceMembers, max(left, b.NamespaceMembers/nodeFloor))
}

// compileLocked gives an idle policy its rules and the definitions of its sets. d.mu
// must be held.
func (d *Dataplane) compileLocked(ps *policyState) {
	c := policy.Compile(&networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ps.Key.Namespace, Name: ps.Key.Name}, Spec: *ps.spec,
	})
	ps.Rules, ps.Sets, ps.group, ps.sized = c.Rules, c.Sets, nil, nil // closed it had neither rules nor size
	d.progress.piece()
}

// growLocked notes that so many pods and namespaces may have joined sets. When that
// may be much, it returns all namespaces with active policies, to be weighed again. d.mu
// must be held.
func (d *Dataplane) growLocked(objects int) map[string]bool {
	all := map[string]bool{}
	if d.crowds.grown += objects * d.crowds.sets; d.crowds.grown <= d.cfg.Budgets.NamespaceMembers/4 {
		return all
	}
	d.crowds.grown = 0
	for ns := range d.crowds.byNS {
		all[ns] = true
	}
	return all
}

// crowdedLocked returns a warning for each policy that has no room. d.mu must be held.
func (d *Dataplane) crowdedLocked() []Warning {
	var out []Warning
	for ps := range d.crowds.closed {
		out = append(out, Warning{ps.Key.String(), "NetworkPolicy", ReasonOverBudget, fmt.Sprintf(
			"what its selectors match, with the other policies of its namespace, is more than %d members (MaxMembersPerNamespace) or than the node has room for (MaxMembers): "+
				"it isolates what it selects and allows nothing. Use matchLabels in place of matchExpressions", d.cfg.Budgets.NamespaceMembers)})
	}
	return out
}
