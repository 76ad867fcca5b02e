package desired

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/winnpm/winnpm/pkg/policy"
)

// stagePolicy replaces a policy; nil deletes it. It is idle until activate.
func (d *State) stagePolicy(key policy.Key, np *networkingv1.NetworkPolicy) {
	var is *policyState
	if np != nil {
		is = newPolicyState(np)
	}
	d.indexPolicy(key, is)
	for _, p := range d.local {
		if p.Namespace == key.Namespace {
			d.reselect(p, key, is)
		}
	}
}

// indexPolicy puts a policy into the indexes, or takes it out.
func (d *State) indexPolicy(key policy.Key, is *policyState) {
	delete(d.problems, key)
	if is == nil {
		delete(d.policies, key)
		delete(d.byNS[key.Namespace], key)
		if len(d.byNS[key.Namespace]) == 0 {
			delete(d.byNS, key.Namespace)
		}
		return
	}
	d.policies[key] = is
	if d.byNS[key.Namespace] == nil {
		d.byNS[key.Namespace] = map[policy.Key]*policyState{}
	}
	d.byNS[key.Namespace][key] = is
	if len(is.warnings) > 0 {
		d.problems[key] = true
	}
}

// reselect keeps the policies that select a local pod when one of them, or
// another one, became what it is; nil deletes it. Its endpoints are rendered again
// when it selected the pod or does.
func (d *State) reselect(p *PodState, key policy.Key, is *policyState) {
	at, had := slices.BinarySearchFunc(p.selected, key, func(ps *policyState, key policy.Key) int {
		return ps.Key.Compare(key)
	})
	has := is != nil && p.OverBudget == "" && is.Subject.Matches(p.Labels)
	if had {
		d.count(p.selected[at], -1)
	}
	if has {
		d.count(is, 1)
	}
	switch {
	case had && has:
		p.selected[at] = is
	case had:
		p.selected = slices.Delete(p.selected, at, at+1)
	case has:
		p.selected = slices.Insert(p.selected, at, is)
	default:
		return
	}
	d.renderAddr(p.Addr, key)
}

// findSelecting finds the policies that select a local pod. Its endpoints are
// rendered again when these are others.
func (d *State) findSelecting(p *PodState) {
	var selected []*policyState
	for _, ps := range d.byNS[p.Namespace] {
		if p.OverBudget == "" && ps.Subject.Matches(p.Labels) {
			selected = append(selected, ps)
		}
	}
	slices.SortFunc(selected, func(a, b *policyState) int { return a.Key.Compare(b.Key) })
	if !slices.Equal(selected, p.selected) {
		for _, ps := range selected {
			d.count(ps, 1)
		}
		d.deselect(p.Placement)
		p.selected = selected
		d.renderAddr(p.Addr, policy.Key{})
	}
}

// renderSelected marks the endpoints of the pods that a policy selects.
func (d *State) renderSelected(ps *policyState) { d.renderIf(ps, func(*PodState) bool { return true }) }

// renderTiered marks those of them that have a list of tiers.
func (d *State) renderTiered(ps *policyState) { d.renderIf(ps, (*PodState).Tiered) }

func (d *State) renderIf(ps *policyState, when func(*PodState) bool) {
	for _, p := range d.local {
		selects := slices.Contains(p.selected, ps) || slices.ContainsFunc(p.clusters, func(s subjection) bool { return s.policy.named == ps })
		if selects && when(p) {
			d.renderAddr(p.Addr, policy.Key{})
		}
	}
}
