package desired

import "github.com/winnpm/winnpm/pkg/ipsets"

// Doubt has the addresses of which nobody knows to which sets of pods they belong: rules
// that deny name it, so that they are denied (ADR 24). It is kept while such a rule is
// active here. It contains one leaf of addresses and the leaf of each namespace that has
// pods and no object that can be read: so a namespace that becomes known leaves it in the
// request in which it joins the sets of its labels.

// doubtful reports whether the pod has its address, and it is not known to which sets
// this belongs: others claim it just as well, or the pod is over its budget.
func (p *PodState) doubtful() bool { return p.Claims() && p.owner && !p.inSets() }

// doubtAll fills Doubt, which is new. It costs the namespaces that have pods.
func (m *members) doubtAll(made nameSet) {
	m.doubting = true
	m.join(ipsets.Doubt(), ipsets.DoubtAddrs(), made)
	for namespace := range m.podGroup.byNS {
		if m.unknown(namespace) {
			m.join(ipsets.Doubt(), ipsets.Namespace(namespace).Deny(), made)
		}
	}
}

// unknown reports whether a namespace has pods, and no object that can be read.
func (m *members) unknown(namespace string) bool {
	ns, known := m.namespaces[namespace]
	return len(m.podGroup.byNS[namespace]) > 0 && (!known || ns.OverBudget != "")
}

// doubt brings Doubt up to date with a namespace that got its first pod or its object, or
// lost them.
func (m *members) doubt(namespace string) {
	if !m.doubting {
		return
	}
	leaf := ipsets.Namespace(namespace).Deny()
	if !m.unknown(namespace) {
		m.cache.RemoveMember(ipsets.Doubt(), leaf)
		return
	}
	made := nameSet{}
	m.join(ipsets.Doubt(), leaf, made)
	m.fill(made)
}

// fillDoubt puts the doubtful addresses of pods into their leaf. It costs the pods.
func (m *members) fillDoubt() {
	for _, p := range m.pods {
		if p.doubtful() {
			m.cache.AddAddr(ipsets.DoubtAddrs(), p.Addr)
		}
	}
}

// ofSame returns the leaf, or its deny twin for a nested set that is one.
func ofSame(nested, leaf ipsets.Name) ipsets.Name {
	if nested.Denies() {
		return leaf.Deny()
	}
	return leaf
}
