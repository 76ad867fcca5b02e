package desired

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// members sets the desired members of sets in the cache. It has the objects of the cluster, and
// the definitions of the sets that are held. Only held sets get members.
//
// A pod changes leaves only: its address leaves the sets of its old state (removePod), and joins
// the sets of its new state (addPod). A Namespace object changes nested sets only (setNamespace). A
// new set gets its members once (define, fill).
type members struct {
	cache      *ipsets.Cache
	ports      *namedPorts
	pods       map[string]map[string]*PodState // by namespace and name
	namespaces map[string]Namespace
	nodes      map[string]*state.NodeDump // of the cluster
	// defs has the definitions of held sets that are not determined by the name alone.
	defs map[ipsets.Name]*policy.SetDef
	// made has the leaves that fill has to fill; it is empty between changes.
	made map[ipsets.Name]bool
	// over says how objects exceed their budget: pods, and Namespaces under their name alone.
	over map[PodKey]string
}

func newMembers(cache *ipsets.Cache) *members {
	m := &members{
		cache:      cache,
		pods:       map[string]map[string]*PodState{},
		namespaces: map[string]Namespace{},
		nodes:      map[string]*state.NodeDump{},
		defs:       map[ipsets.Name]*policy.SetDef{},
		made:       map[ipsets.Name]bool{},
		over:       map[PodKey]string{},
	}
	m.ports = newNamedPorts(m)
	return m
}

// pod returns the pod of a name, nil for none.
func (m *members) pod(key PodKey) *PodState { return m.pods[key.Namespace][key.Name] }

// all yields every pod.
func (m *members) all() iter.Seq[*PodState] {
	return func(yield func(*PodState) bool) {
		for _, in := range m.pods {
			for _, p := range in {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// put records a pod, in place of an earlier state or pod of the same name.
func (m *members) put(p *PodState) {
	in := m.pods[p.Namespace]
	if in == nil {
		in = map[string]*PodState{}
		m.pods[p.Namespace] = in
	}
	in[p.Name] = p
	if delete(m.over, p.Key()); p.OverBudget != "" && !p.IsLost() { // a lost pod has no object that a warning could be about
		m.over[p.Key()] = p.OverBudget
	}
	if len(in) == 1 {
		m.doubt(p.Namespace)
		m.fill()
	}
}

// drop forgets a pod.
func (m *members) drop(key PodKey) {
	delete(m.pods[key.Namespace], key.Name)
	delete(m.over, key)
	if len(m.pods[key.Namespace]) == 0 {
		delete(m.pods, key.Namespace)
		m.doubt(key.Namespace)
		m.fill()
	}
}

// removePod removes the pod's address from every set that its old state matched; was may be nil.
func (m *members) removePod(was *PodState) {
	if was == nil {
		return
	}
	m.eachSet(was, func(n ipsets.Name) {
		if len(m.nodes) == 0 || n.Kind() != ipsets.KindInBlocks || !m.isNode(was.Addr) {
			m.cache.RemoveAddr(n, was.Addr)
		}
	})
	if len(was.Ports) > 0 {
		m.ports.count(was, -1)
	}
}

// addPod adds the pod's address to every set that it matches; is may be nil.
func (m *members) addPod(is *PodState) {
	if is == nil {
		return
	}
	m.eachSet(is, func(n ipsets.Name) { m.cache.AddAddr(n, is.Addr) })
	if len(is.Ports) > 0 {
		m.ports.count(is, 1)
	}
}

// eachSet visits the held leaves that contain a pod's address. Its cost is linear in the pod's labels
// and ports, and the sets in m.defs.
func (m *members) eachSet(p *PodState, visit func(ipsets.Name)) {
	for n, def := range m.defs {
		if contains(def, p) {
			visit(n)
		}
	}
	switch {
	case p.inSets:
		m.cache.EachOfPod(p.Namespace, p.Labels, visit)
		if len(p.Ports) > 0 {
			m.ports.eachOfPod(p, visit)
		}
	case p.doubtful && m.cache.Has(ipsets.DoubtAddrs()):
		visit(ipsets.DoubtAddrs())
	}
}

// contains reports whether a set that m.defs defines contains a pod's address.
func contains(def *policy.SetDef, p *PodState) bool {
	switch {
	case def.Pods != nil:
		return p.inSets && (def.Namespace == "" || def.Namespace == p.Namespace) && def.Pods.Matches(p.Labels)
	case def.Blocks != nil:
		return (p.inSets || def.Name.Denies() && p.doubtful) && inBlocks(def.Blocks, p.Addr)
	}
	return false // a set of nodes or of namespaces
}

// define records the definition of a set that is new in the cache, and adds the members of a nested
// set. The caller must call fill afterwards.
func (m *members) define(def policy.SetDef) {
	switch def.Name.Kind() {
	case ipsets.KindNamespaceSelector:
		m.defs[def.Name] = &def
		for name := range m.namespaces {
			m.nest(&def, name)
		}
	case ipsets.KindNestedLabel:
		for _, leaf := range def.Members {
			m.setMember(def.Name, leaf, true)
		}
	case ipsets.KindDoubt:
		m.setMember(def.Name, ipsets.DoubtAddrs(), true)
		for namespace := range m.pods {
			m.doubt(namespace)
		}
	case ipsets.KindPodSelector, ipsets.KindNodes, ipsets.KindInBlocks:
		m.defs[def.Name] = &def
		m.made[def.Name] = true
	case ipsets.KindNamedPort:
		m.ports.hold(def.Name)
		m.made[def.Name] = true
	default:
		m.made[def.Name] = true
	}
}

// setMember adds a leaf to a nested set or removes it.
func (m *members) setMember(nested, leaf ipsets.Name, is bool) {
	if !is {
		m.cache.RemoveMember(nested, leaf)
	} else if m.cache.AddMember(nested, leaf) {
		m.made[leaf] = true
	}
}

// fill adds the members of new leaves. It looks at the pods once for all of them, and once more for
// each set of a named port, or of addresses in doubt.
func (m *members) fill() {
	keys := map[string]bool{} // of labels
	var defs []*policy.SetDef // of sets that are not of a label
	for n := range m.made {
		switch n.Kind() {
		case ipsets.KindPodLabel:
			key, _, _ := strings.Cut(n.Text(), ":")
			keys[key] = true
		case ipsets.KindNamespace:
			m.fillSet(n, maps.Values(m.pods[n.Text()]), func(p *PodState) bool { return p.inSets })
		case ipsets.KindNamedPort:
			set, _ := m.ports.parse(n)
			m.fillSet(n, m.all(), set.contains)
		case ipsets.KindDoubtAddrs:
			m.fillSet(n, m.all(), func(p *PodState) bool { return p.doubtful })
		default:
			if def := m.defs[n]; def != nil { // the permanent empty set has none, and no members
				defs = append(defs, def)
				m.addNodes(def)
			}
		}
	}
	if len(keys)+len(defs) > 0 {
		for p := range m.all() {
			for _, def := range defs {
				if contains(def, p) {
					m.cache.AddAddr(def.Name, p.Addr)
				}
			}
			m.fillLabels(p, keys)
		}
	}
	clear(m.made)
}

// fillSet adds the addresses of the pods to a set for which has is true.
func (m *members) fillSet(n ipsets.Name, pods iter.Seq[*PodState], has func(*PodState) bool) {
	for p := range pods {
		if has(p) {
			m.cache.AddAddr(n, p.Addr)
		}
	}
}

// fillLabels adds a pod to those new sets of labels with these keys that it matches.
func (m *members) fillLabels(p *PodState, keys map[string]bool) {
	if len(keys) == 0 || !p.inSets {
		return
	}
	for key, value := range p.Labels {
		if !keys[key] {
			continue
		}
		for _, n := range [...]ipsets.Name{ipsets.PodLabelKey(key), ipsets.PodLabel(key, value)} {
			for _, n := range [...]ipsets.Name{n, n.Deny()} {
				if m.made[n] {
					m.cache.AddAddr(n, p.Addr)
				}
			}
		}
	}
}

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
	for n, def := range m.defs {
		if n.Kind() == ipsets.KindNamespaceSelector {
			m.nest(def, name)
		}
	}
	m.doubt(name)
	m.fill()
}

// nest adds the set of a namespace to a set of namespaces if that matches, or else removes it. A
// namespace whose labels are unknown is in no such set, not even in one that excludes labels.
func (m *members) nest(def *policy.SetDef, namespace string) {
	leaf := ipsets.Namespace(namespace)
	if def.Name.Denies() {
		leaf = leaf.Deny()
	}
	labels, known := m.labels(namespace)
	m.setMember(def.Name, leaf, known && def.Namespaces.Matches(labels))
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
func (m *members) doubt(namespace string) {
	if m.cache.Has(ipsets.Doubt()) {
		_, known := m.labels(namespace)
		m.setMember(ipsets.Doubt(), ipsets.Namespace(namespace).Deny(), !known && len(m.pods[namespace]) > 0)
	}
}

// setNodes records nodes of the cluster, nil for deleted ones, and adds their addresses to the sets
// of nodes and of blocks, or removes them. Its cost is linear in the nodes, and for each
// address that a node loses in the pods.
func (m *members) setNodes(changed map[string]*state.NodeDump) {
	touched := map[netip.Addr]bool{}
	for name, is := range changed {
		for _, a := range append(nodeAddrs(m.nodes[name]), nodeAddrs(is)...) {
			touched[a] = true
		}
		if delete(m.nodes, name); is != nil {
			m.nodes[name] = is
		}
	}
	at := map[netip.Addr][]*state.NodeDump{}
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
func (m *members) setNodeAddr(def *policy.SetDef, a netip.Addr, at []*state.NodeDump) {
	if slices.ContainsFunc(at, func(n *state.NodeDump) bool { return hasNode(def, n, a) }) || m.podAt(a, def) {
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
func hasNode(def *policy.SetDef, node *state.NodeDump, a netip.Addr) bool {
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
func nodeAddrs(n *state.NodeDump) []netip.Addr {
	if n == nil {
		return nil
	}
	return IPv4(n.Addrs)
}
