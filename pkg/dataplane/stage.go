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

// stage folds a transaction into the caches; no I/O. Namespaces and
// policies go first, so that a cold start fills each set once.
func (d *core) stage(tx *Transaction) changes {
	c := changes{}
	addrs := map[netip.Addr]ownership{}
	if tx.nodeAddrs != nil && !slices.Equal(*tx.nodeAddrs, d.nodeAddrs) {
		c.add(changedNode, len(d.nodeAddrs) > 0, true)
		for _, addr := range slices.Concat(d.nodeAddrs, *tx.nodeAddrs) {
			addrs[addr] = d.whose(addr)
		}
		d.nodeAddrs = *tx.nodeAddrs
		for _, ep := range d.endpoints {
			d.mark(ep, policy.Key{})
		}
	}
	for name, n := range tx.nodes {
		_, known := d.members.cluster.nodes[name]
		c.add(changedNode, known, n != nil)
	}
	d.members.setNodes(tx.nodes)
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
		d.namedPorts.relabeled(name)
		d.relabeledSubjects(name)
	}
	for key, np := range tx.policies {
		d.progress.note("staging", kindPolicy, key.Namespace, key.Name)
		c.add(changedPolicy, d.policies[key] != nil, np != nil)
		d.stagePolicy(key, np)
	}
	for name, cnp := range tx.clusters {
		d.progress.note("staging", kindClusterPolicy, "", name)
		c.add(changedClusterPolicy, d.clusters[name] != nil, cnp != nil)
		d.stageCluster(name, cnp)
	}
	d.stagePods(tx.pods, addrs, c)
	went := d.activateClusters()
	d.activate()
	d.retireClusters(went)
	if tx.observed != nil {
		d.foldObservation(tx.observed)
	}
	d.leaveOut()
	d.renderDirty()
	d.leaveOut() // of what is needed only now
	d.renderDirty()
	return c
}

// renderDirty renders the marked endpoints, in order: it decides whose turn
// comes first.
func (d *core) renderDirty() {
	d.namedPorts.settle()
	if len(d.dirty) == 0 {
		return
	}
	d.settleCauses()
	for _, ep := range slices.SortedFunc(maps.Keys(d.dirty), func(a, b *endpoint) int { return cmp.Compare(a.id, b.id) }) {
		d.render(ep)
	}
	clear(d.dirty)
}

// leaveOut finds the sets whose content became one that HNS refused, or
// is no longer: the rules that name them go, or come back.
func (d *core) leaveOut() {
	for _, n := range d.cache.Refused() {
		if !d.leftOut[n] {
			d.leftOut[n] = true
			d.renderHolders(n)
		}
	}
	for n := range d.leftOut {
		if !d.cache.Rejected(n) {
			delete(d.leftOut, n)
			d.renderHolders(n)
		}
	}
	if len(d.leftOut)+len(d.lacking) > 0 {
		d.leaveOutTwins()
	}
}

// leaveOutTwins finds the nested deny twins that came to lack a member which HNS refuses,
// or lack none any more: rules that name them lose the condition, or get it back. It
// costs the sets that HNS refuses, and who holds them.
func (d *core) leaveOutTwins() {
	lacking := nameSet{}
	for n := range d.leftOut {
		for _, ref := range d.cache.Refs(n) {
			in, ok := ipsets.ParseName(ref.Owner, true)
			if ref.Kind == ipsets.RefList && ok && in.Denies() && d.cache.Rejected(in) {
				lacking[in] = true
			}
		}
	}
	for n := range lacking {
		if !d.lacking[n] {
			d.renderHolders(n)
		}
	}
	for n := range d.lacking {
		if !lacking[n] {
			d.renderHolders(n)
		}
	}
	d.lacking = lacking
}

// renderHolders marks the endpoints whose rules name a set, desired or actual.
func (d *core) renderHolders(n ipsets.Name) {
	for _, ref := range d.cache.Refs(n) {
		if ep := d.endpoints[ref.Owner]; ep != nil && (ref.Kind == ipsets.RefRule || ref.Kind == ipsets.RefApplied) {
			d.mark(ep, policy.Key{})
		}
	}
}

// stagePolicy replaces a policy; nil deletes it. It is idle until activate.
func (d *core) stagePolicy(key policy.Key, np *networkingv1.NetworkPolicy) {
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
func (d *core) indexPolicy(key policy.Key, is *policyState) {
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
func (d *core) reselect(p *podState, key policy.Key, is *policyState) {
	at, had := slices.BinarySearchFunc(p.selected, key, func(ps *policyState, key policy.Key) int {
		return compareKeys(ps.Key, key)
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
func (d *core) findSelecting(p *podState) {
	var selected []*policyState
	for _, ps := range d.byNS[p.Namespace] {
		if p.OverBudget == "" && ps.Subject.Matches(p.Labels) {
			selected = append(selected, ps)
		}
	}
	slices.SortFunc(selected, func(a, b *policyState) int { return compareKeys(a.Key, b.Key) })
	if !slices.Equal(selected, p.selected) {
		for _, ps := range selected {
			d.count(ps, 1)
		}
		d.deselect(p.placement)
		p.selected = selected
		d.renderAddr(p.Addr, policy.Key{})
	}
}

func compareKeys(a, b policy.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// renderAddr marks the endpoints of an address.
func (d *core) renderAddr(addr netip.Addr, by policy.Key) {
	for _, ep := range d.byAddr[addr] {
		d.mark(ep, by)
	}
}

// renderSelected marks the endpoints of the pods that a policy selects.
func (d *core) renderSelected(ps *policyState) { d.renderIf(ps, func(*podState) bool { return true }) }

// renderTiered marks those of them that have a list of tiers.
func (d *core) renderTiered(ps *policyState) { d.renderIf(ps, (*podState).tiered) }

func (d *core) renderIf(ps *policyState, when func(*podState) bool) {
	for _, p := range d.local {
		selects := slices.Contains(p.selected, ps) || slices.ContainsFunc(p.clusters, func(s subjection) bool { return s.policy.named == ps })
		if selects && when(p) {
			d.renderAddr(p.Addr, policy.Key{})
		}
	}
}
