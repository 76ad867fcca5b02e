package dataplane

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// stageLocked folds a transaction into the caches; no I/O. Namespaces and
// policies go first, so that a cold start fills each set once. d.mu must be
// held.
func (d *Dataplane) stageLocked(tx *Transaction) changes {
	c := changes{}
	addrs := map[netip.Addr]standingOf{}
	if tx.nodeAddrs != nil && !slices.Equal(*tx.nodeAddrs, d.nodeAddrs) {
		c.add(changedNode, len(d.nodeAddrs) > 0, true)
		for _, addr := range slices.Concat(d.nodeAddrs, *tx.nodeAddrs) {
			addrs[addr] = d.whoseLocked(addr)
		}
		d.nodeAddrs = *tx.nodeAddrs
		for _, ep := range d.endpoints {
			d.markLocked(ep, policy.Key{})
		}
	}
	for name, ns := range tx.namespaces {
		d.progress.note("staging", kindNamespace, "", name)
		was, known := d.members.namespaces[name]
		if ns == nil || !known || !was.Same(ns) {
			c.add(changedNamespace, known, ns != nil)
		}
		if ns == nil {
			d.members.deleteNamespace(name)
		} else {
			is := *ns
			is.Labels = maps.Clone(ns.Labels)
			d.members.setNamespace(is)
		}
		d.families.relabeled(name)
	}
	for key, np := range tx.policies {
		d.progress.note("staging", kindPolicy, key.Namespace, key.Name)
		c.add(changedPolicy, d.policies[key] != nil, np != nil)
		d.stagePolicyLocked(key, np)
	}
	d.stagePodsLocked(tx.pods, addrs, c)
	d.activateLocked()
	if tx.observed != nil {
		d.foldObservationLocked(tx.observed)
	}
	d.leaveOutLocked()
	d.renderDirtyLocked()
	d.leaveOutLocked() // of what is needed only now
	d.renderDirtyLocked()
	return c
}

// renderDirtyLocked renders the marked endpoints, in order: it decides whose turn
// comes first. d.mu must be held.
func (d *Dataplane) renderDirtyLocked() {
	d.families.settle()
	d.settleCausesLocked()
	for _, ep := range slices.SortedFunc(maps.Keys(d.dirty), func(a, b *endpoint) int { return cmp.Compare(a.id, b.id) }) {
		d.renderLocked(ep)
	}
	clear(d.dirty)
}

// leaveOutLocked finds the sets whose content became one that HNS refused, or
// is no longer: the rules that name them go, or come back. d.mu must be held.
func (d *Dataplane) leaveOutLocked() {
	for _, n := range d.cache.Refused() {
		if !d.leftOut[n] {
			d.leftOut[n] = true
			d.renderHoldersLocked(n)
		}
	}
	for n := range d.leftOut {
		if !d.cache.Rejected(n) {
			delete(d.leftOut, n)
			d.renderHoldersLocked(n)
		}
	}
}

// renderHoldersLocked marks the endpoints whose rules name a set, wanted or there.
// d.mu must be held.
func (d *Dataplane) renderHoldersLocked(n ipsets.Name) {
	for _, ref := range d.cache.Refs(n) {
		if ep := d.endpoints[ref.Owner]; ep != nil && (ref.Kind == ipsets.RefRule || ref.Kind == ipsets.RefApplied) {
			d.markLocked(ep, policy.Key{})
		}
	}
}

// stagePolicyLocked replaces a policy; nil deletes it. It is idle until activateLocked.
// d.mu must be held.
func (d *Dataplane) stagePolicyLocked(key policy.Key, np *networkingv1.NetworkPolicy) {
	var is *policyState
	if np != nil {
		is = newPolicyState(np)
	}
	d.indexPolicyLocked(key, is)
	for _, p := range d.local {
		if p.Namespace == key.Namespace {
			d.reselectLocked(p, key, is)
		}
	}
}

// indexPolicyLocked puts a policy into the indexes, or takes it out. d.mu must
// be held.
func (d *Dataplane) indexPolicyLocked(key policy.Key, is *policyState) {
	d.policyCopies.Before(key)
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

// reselectLocked keeps the policies that select a local pod when one of them, or
// another one, became what it is; nil deletes it. Its endpoints are rendered again
// when it selected the pod or does. d.mu must be held.
func (d *Dataplane) reselectLocked(p *podState, key policy.Key, is *policyState) {
	at, had := slices.BinarySearchFunc(p.selected, key, func(ps *policyState, key policy.Key) int {
		return compareKeys(ps.Key, key)
	})
	has := is != nil && p.OverBudget == "" && is.Subject.Matches(p.Labels)
	if had {
		d.countLocked(p.selected[at], -1)
	}
	if has {
		d.countLocked(is, 1)
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
	d.renderAddrLocked(p.Addr, key)
}

// selectLocked finds the policies that select a local pod. Its endpoints are
// rendered again when these are others. d.mu must be held.
func (d *Dataplane) selectLocked(p *podState) {
	var selected []*policyState
	for _, ps := range d.byNS[p.Namespace] {
		if p.OverBudget == "" && ps.Subject.Matches(p.Labels) {
			selected = append(selected, ps)
		}
	}
	slices.SortFunc(selected, func(a, b *policyState) int { return compareKeys(a.Key, b.Key) })
	if !slices.Equal(selected, p.selected) {
		for _, ps := range selected {
			d.countLocked(ps, 1)
		}
		d.deselectLocked(p.placement)
		p.selected = selected
		d.renderAddrLocked(p.Addr, policy.Key{})
	}
}

func compareKeys(a, b policy.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// renderAddrLocked marks the endpoints of an address. d.mu must be held.
func (d *Dataplane) renderAddrLocked(addr netip.Addr, by policy.Key) {
	for _, ep := range d.byAddr[addr] {
		d.markLocked(ep, by)
	}
}

// renderSelectedLocked marks the endpoints of the pods that a policy selects.
// d.mu must be held.
func (d *Dataplane) renderSelectedLocked(ps *policyState) {
	for _, p := range d.local {
		if slices.Contains(p.selected, ps) {
			d.renderAddrLocked(p.Addr, policy.Key{})
		}
	}
}
