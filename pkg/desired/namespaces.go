package desired

import (
	"net/netip"
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// setNamespace records a Namespace object, nil for a deleted one, and adds its set to the sets of
// namespaces that match it, and removes it from the others.
func (m *members) setNamespace(name string, ns *Namespace) {
	delete(m.namespaces, name)
	delete(m.over, PodKey{Namespace: name})
	if ns != nil {
		m.namespaces[name] = *ns
		if ns.OverBudget != "" {
			m.over[PodKey{Namespace: name}] = ns.OverBudget
		}
	}
	m.fillAfter(func(made nameSet) {
		for n, def := range m.defs {
			if n.Kind() == ipsets.KindNamespaceSelector {
				m.nest(def, name, made)
			}
		}
		m.doubt(name, made)
	})
}

// nest adds the set of a namespace to a set of namespaces if that matches, or else removes it. A
// namespace whose labels are unknown is in no such set, not even in one that excludes labels.
func (m *members) nest(def *policy.SetDef, namespace string, made nameSet) {
	leaf := ipsets.Namespace(namespace)
	if def.Name.Denies() {
		leaf = leaf.Deny()
	}
	labels, known := m.labels(namespace)
	m.setMember(def.Name, leaf, known && def.Namespaces.Matches(labels), made)
}

// labels returns the labels of a namespace, and false if they are unknown: there is no
// such object, or it is over its budget.
func (m *members) labels(namespace string) (map[string]string, bool) {
	ns, known := m.namespaces[namespace]
	return ns.Labels, known && ns.OverBudget == ""
}

// doubt adds the set of a namespace to Doubt or removes it.
//
// Doubt has the addresses for which it is unknown to which sets of pods they belong. Rules that
// deny name Doubt, so that these addresses are denied (ADR 24). It contains one leaf of addresses and
// the leaf of each namespace that has pods and unknown labels. So a namespace that becomes known
// leaves Doubt in the same request in which it joins the sets of its labels.
func (m *members) doubt(namespace string, made nameSet) {
	if m.cache.Has(ipsets.Doubt()) {
		_, known := m.labels(namespace)
		m.setMember(ipsets.Doubt(), ipsets.Namespace(namespace).Deny(), !known && len(m.pods[namespace]) > 0, made)
	}
}

// setNodes records nodes of the cluster, nil for deleted ones, and adds their addresses to the sets
// of nodes and of blocks, or removes them. Its cost is linear in the nodes, and for each
// address that a node loses in the pods.
func (m *members) setNodes(changed map[string]*state.Node) {
	touched := map[netip.Addr]bool{}
	for name, is := range changed {
		for _, a := range append(nodeAddrs(m.nodes[name]), nodeAddrs(is)...) {
			touched[a] = true
		}
		if delete(m.nodes, name); is != nil {
			m.nodes[name] = is
		}
	}
	at := map[netip.Addr][]*state.Node{}
	for _, n := range m.nodes {
		for _, a := range nodeAddrs(n) {
			at[a] = append(at[a], n)
		}
	}
	for n, def := range m.defs {
		if n.Kind() != ipsets.KindNodes && n.Kind() != ipsets.KindInBlocks {
			continue
		}
		for a := range touched {
			m.setNodeAddr(def, a, at[a])
		}
	}
}

// setNodeAddr adds an address to a set of nodes or of blocks, or removes it. at are the nodes
// that have the address.
func (m *members) setNodeAddr(def *policy.SetDef, a netip.Addr, at []*state.Node) {
	if slices.ContainsFunc(at, func(n *state.Node) bool { return hasNode(def, n, a) }) || m.podAt(a, def) {
		m.cache.AddAddr(def.Name, a)
	} else {
		m.cache.RemoveAddr(def.Name, a)
	}
}

// addNodes adds the addresses of nodes to a new set of nodes or of blocks.
func (m *members) addNodes(def *policy.SetDef) {
	for _, node := range m.nodes {
		for _, a := range nodeAddrs(node) {
			if hasNode(def, node, a) {
				m.cache.AddAddr(def.Name, a)
			}
		}
	}
}

// hasNode reports whether a set of nodes or of blocks has an address because of a node with that
// address. The labels of a node over its budget are unknown: its addresses are in deny twins,
// and in no other set of nodes.
func hasNode(def *policy.SetDef, node *state.Node, a netip.Addr) bool {
	switch {
	case def.Nodes == nil:
		return inBlocks(def.Blocks, a)
	case node.OverBudget != "":
		return def.Name.Denies()
	}
	return def.Nodes.Matches(node.Labels)
}

// podAt reports whether a set of blocks has an address because of a pod. Its cost is linear in the pods.
func (m *members) podAt(a netip.Addr, def *policy.SetDef) bool {
	if !inBlocks(def.Blocks, a) {
		return false
	}
	for p := range m.all() {
		if p.Addr == a && contains(def, p) {
			return true
		}
	}
	return false
}

// isNode reports whether a node of the cluster has an address. Its cost is linear in the nodes.
func (m *members) isNode(a netip.Addr) bool {
	for _, n := range m.nodes {
		if slices.Contains(n.Addrs, a) {
			return true
		}
	}
	return false
}

// nodeAddrs returns the IPv4 addresses of a node; none for nil.
func nodeAddrs(n *state.Node) []netip.Addr {
	if n == nil {
		return nil
	}
	return IPv4(n.Addrs)
}
