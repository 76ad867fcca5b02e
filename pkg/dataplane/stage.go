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
	if tx.nodeAddrs != nil && !slices.Equal(*tx.nodeAddrs, d.nodeAddrs) {
		c.add(changedNode, len(d.nodeAddrs) > 0, true)
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
	d.stagePodsLocked(tx.pods, c)
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

// stagePolicyLocked replaces a policy; nil deletes it. What the new one needs
// is held before the old one lets go, so that nothing both use moves. d.mu must
// be held.
func (d *Dataplane) stagePolicyLocked(key policy.Key, np *networkingv1.NetworkPolicy) {
	was := d.policies[key]
	var is *policyState
	if np != nil {
		is = &policyState{Compiled: policy.Compile(np), spec: &np.Spec}
		is.warnings = problemWarnings(&is.Compiled)
		for _, def := range is.Sets {
			d.members.define(def, is.ref())
			d.progress.piece()
		}
		d.families.use(is)
	}
	d.indexPolicyLocked(key, is)
	for _, p := range d.local {
		if p.Namespace == key.Namespace {
			d.reselectLocked(p, key, is)
		}
	}
	if was == nil {
		return
	}
	d.families.leave(was)
	for _, def := range was.Sets {
		if is == nil || !defines(is, def.Name) {
			d.releaseLocked(def.Name, was.ref())
		}
	}
}

// defines reports whether a policy mentions a set. Sets are sorted by name.
func defines(p *policyState, n ipsets.Name) bool {
	_, ok := slices.BinarySearchFunc(p.Sets, n, func(def policy.SetDef, n ipsets.Name) int {
		return ipsets.Compare(def.Name, n)
	})
	return ok
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
