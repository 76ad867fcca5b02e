package desired

import (
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// members knows which address is in which set, and feeds the cache. It has the objects of the
// cluster and the definitions of the sets that are held. Only held sets are fed.
//
// A pod changes leaves only: it leaves the sets of what it was (leave), and joins those of what it
// is (enter). A Namespace object changes nested sets only (setNamespace). A set that is new gets
// its members once (define, fill).
type members struct {
	cache      *ipsets.Cache
	ports      *namedPortSets
	pods       map[string]map[string]*PodState // by namespace and name
	namespaces map[string]Namespace
	nodes      map[string]*state.Node // of the cluster
	// defs are the definitions of those held sets that have more than their name says.
	defs map[ipsets.Name]policy.SetDef
	over overBudget
}

func newMembers(cache *ipsets.Cache) *members {
	m := &members{
		cache:      cache,
		pods:       map[string]map[string]*PodState{},
		namespaces: map[string]Namespace{},
		nodes:      map[string]*state.Node{},
		defs:       map[ipsets.Name]policy.SetDef{},
		over:       newOverBudget(),
	}
	m.ports = newNamedPortSets(cache, m)
	return m
}

// nameSet is names of sets, each once.
type nameSet map[ipsets.Name]bool

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

// put records a pod, in place of what its name was.
func (m *members) put(p *PodState) {
	in := m.pods[p.Namespace]
	if in == nil {
		in = map[string]*PodState{}
		m.pods[p.Namespace] = in
	}
	in[p.Name] = p
	if !p.IsLost() { // a lost pod has no object that a warning could be about
		m.over.pod(p.Key(), p.OverBudget)
	}
	if len(in) == 1 {
		m.fillAfter(func(made nameSet) { m.doubt(p.Namespace, made) })
	}
}

// drop forgets a pod.
func (m *members) drop(key PodKey) {
	delete(m.pods[key.Namespace], key.Name)
	m.over.pod(key, "")
	if len(m.pods[key.Namespace]) == 0 {
		delete(m.pods, key.Namespace)
		m.fillAfter(func(made nameSet) { m.doubt(key.Namespace, made) })
	}
}

// leave takes a pod out of the sets of what it was.
func (m *members) leave(was *PodState) {
	m.eachSet(was, func(n ipsets.Name) {
		if n.Kind() != ipsets.KindInBlocks || !m.isNode(was.Addr) {
			m.cache.RemoveAddr(n, was.Addr)
		}
	})
	m.ports.count(was, -1)
}

// enter puts a pod into the sets of what it is.
func (m *members) enter(is *PodState) {
	m.eachSet(is, func(n ipsets.Name) { m.cache.AddAddr(n, is.Addr) })
	m.ports.count(is, 1)
}

// eachSet visits the held leaves that contain a pod's address; p may be nil. It costs the labels
// and ports of the pod, and the sets in m.defs.
func (m *members) eachSet(p *PodState, visit func(ipsets.Name)) {
	if p == nil {
		return
	}
	own := ipsets.Namespace(p.Namespace)
	for _, n := range [...]ipsets.Name{own, own.Deny(), ipsets.DoubtAddrs()} {
		if m.contains(n, p) && m.cache.Has(n) {
			visit(n)
		}
	}
	for n := range m.defs {
		if m.contains(n, p) {
			visit(n)
		}
	}
	if !p.inSets() {
		return
	}
	for key, value := range p.Labels {
		m.cache.EachPodLabel(key, value, visit)
	}
	m.ports.eachSet(p, visit)
}

// contains reports whether a set contains a pod's address. It does not know the sets of labels
// and named ports.
func (m *members) contains(n ipsets.Name, p *PodState) bool {
	switch n.Kind() {
	case ipsets.KindNamespace:
		return p.inSets() && p.Namespace == n.Text()
	case ipsets.KindPodSelector:
		def := m.defs[n]
		return p.inSets() && (def.Namespace == "" || def.Namespace == p.Namespace) && def.Pods.Matches(p.Labels)
	case ipsets.KindInBlocks:
		return (p.inSets() || n.Denies() && p.doubtful()) && inBlocks(m.defs[n].Blocks, p.Addr)
	case ipsets.KindDoubtAddrs:
		return p.doubtful()
	default:
		return false
	}
}

// define records the definition of a set that is new in the cache. Of nested sets it adds the
// members. It puts the leaves that are to be filled into made.
func (m *members) define(def policy.SetDef, made nameSet) {
	switch def.Name.Kind() {
	case ipsets.KindNamespaceSelector:
		m.defs[def.Name] = def
		for name := range m.namespaces {
			m.nest(def, name, made)
		}
	case ipsets.KindNestedLabel:
		for _, leaf := range def.Members {
			m.setMember(def.Name, leaf, true, made)
		}
	case ipsets.KindDoubt:
		m.setMember(def.Name, ipsets.DoubtAddrs(), true, made)
		for namespace := range m.pods {
			m.doubt(namespace, made)
		}
	case ipsets.KindPodSelector, ipsets.KindNodes, ipsets.KindInBlocks:
		m.defs[def.Name] = def
		made[def.Name] = true
	default:
		made[def.Name] = true
	}
}

// setMember puts a leaf into a nested set or takes it out. It puts the leaf into made when that
// made it.
func (m *members) setMember(nested, leaf ipsets.Name, is bool, made nameSet) {
	if !is {
		m.cache.RemoveMember(nested, leaf)
	} else if m.cache.AddMember(nested, leaf) {
		made[leaf] = true
	}
}

// fillAfter calls change and fills the leaves that it makes.
func (m *members) fillAfter(change func(made nameSet)) {
	made := nameSet{}
	change(made)
	m.fill(made)
}

// fill fills leaves that are new. It looks at the pods once for all sets of labels and named
// ports, and once more for each other set.
func (m *members) fill(made nameSet) {
	keys := map[string]bool{} // of labels
	for n := range made {
		switch n.Kind() {
		case ipsets.KindPodLabel:
			key, _, _ := strings.Cut(n.Text(), ":")
			keys[key] = true
		case ipsets.KindNamedPort:
			m.ports.fill(n)
		case ipsets.KindNamespace:
			for _, p := range m.pods[n.Text()] {
				m.addTo(n, p)
			}
		default:
			for p := range m.all() {
				m.addTo(n, p)
			}
			m.addNodes(n)
		}
	}
	if len(keys) > 0 {
		m.fillLabels(keys, made)
	}
}

// addTo puts a pod into a set if the set contains it.
func (m *members) addTo(n ipsets.Name, p *PodState) {
	if m.contains(n, p) {
		m.cache.AddAddr(n, p.Addr)
	}
}

// fillLabels fills new sets of labels with these keys.
func (m *members) fillLabels(keys map[string]bool, made nameSet) {
	for p := range m.all() {
		if !p.inSets() {
			continue
		}
		for key, value := range p.Labels {
			if !keys[key] {
				continue
			}
			m.cache.EachPodLabel(key, value, func(n ipsets.Name) {
				if made[n] {
					m.cache.AddAddr(n, p.Addr)
				}
			})
		}
	}
}

// setNamespace records a Namespace object, nil for a deleted one, and moves its set in and out
// of the sets of namespaces.
func (m *members) setNamespace(name string, ns *Namespace) {
	delete(m.namespaces, name)
	delete(m.over.namespaces, name)
	if ns != nil {
		m.namespaces[name] = *ns
		if ns.OverBudget != "" {
			m.over.namespaces[name] = ns.OverBudget
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

// nest puts the set of a namespace into a set of namespaces that matches it, or takes it out. A
// namespace whose labels are not known is in none, not even in one that excludes labels.
func (m *members) nest(def policy.SetDef, namespace string, made nameSet) {
	leaf := ipsets.Namespace(namespace)
	if def.Name.Denies() {
		leaf = leaf.Deny()
	}
	labels, known := m.labels(namespace)
	m.setMember(def.Name, leaf, known && def.Namespaces.Matches(labels), made)
}

// labels returns the labels of a namespace. It reports false when they are not known: there is no
// such object, or it is over its budget.
func (m *members) labels(namespace string) (map[string]string, bool) {
	ns, known := m.namespaces[namespace]
	return ns.Labels, known && ns.OverBudget == ""
}

// doubt puts the set of a namespace into Doubt or takes it out.
//
// Doubt has the addresses of which it is not known to which sets of pods they belong. Rules that
// deny name it, so that they are denied (ADR 24). It contains one leaf of addresses and the leaf
// of each namespace that has pods and labels that are not known. So a namespace that becomes known
// leaves it in the request in which it joins the sets of its labels.
func (m *members) doubt(namespace string, made nameSet) {
	if m.cache.Has(ipsets.Doubt()) {
		_, known := m.labels(namespace)
		m.setMember(ipsets.Doubt(), ipsets.Namespace(namespace).Deny(), !known && len(m.pods[namespace]) > 0, made)
	}
}

// doubtful reports whether the pod has its address, and it is not known to which sets this
// belongs: pods of other namespaces claim it just as well, or the pod is over its budget.
func (p *PodState) doubtful() bool { return p.Claims() && p.owner && !p.inSets() }

// setNodes records nodes of the cluster, nil for deleted ones, and moves their addresses in and
// out of the sets of nodes and of blocks. It costs all nodes, and for each address that a node
// loses all pods.
func (m *members) setNodes(changed map[string]*state.Node) {
	if len(changed) == 0 {
		return
	}
	touched := map[netip.Addr][]*state.Node{} // the nodes that have the address now
	for name, is := range changed {
		for _, n := range []*state.Node{m.nodes[name], is} {
			for _, a := range nodeAddrs(n) {
				touched[a] = nil
			}
		}
		if delete(m.nodes, name); is != nil {
			m.nodes[name] = is
		}
	}
	for _, n := range m.nodes {
		for _, a := range nodeAddrs(n) {
			if at, is := touched[a]; is {
				touched[a] = append(at, n)
			}
		}
	}
	for n, def := range m.defs {
		if n.Kind() != ipsets.KindNodes && n.Kind() != ipsets.KindInBlocks {
			continue
		}
		for a, at := range touched {
			if slices.ContainsFunc(at, func(node *state.Node) bool { return hasNode(def, node, a) }) || m.podAt(a, n) {
				m.cache.AddAddr(n, a)
			} else {
				m.cache.RemoveAddr(n, a)
			}
		}
	}
}

// addNodes puts the addresses of nodes into a new set of nodes or of blocks.
func (m *members) addNodes(n ipsets.Name) {
	for _, node := range m.nodes {
		for _, a := range nodeAddrs(node) {
			if hasNode(m.defs[n], node, a) {
				m.cache.AddAddr(n, a)
			}
		}
	}
}

// hasNode reports whether a set of nodes or of blocks has an address because of a node that has
// it. Of a node over its budget the labels are not known: a deny twin has it, the other set has
// not.
func hasNode(def policy.SetDef, node *state.Node, a netip.Addr) bool {
	switch {
	case def.Nodes == nil:
		return inBlocks(def.Blocks, a)
	case node.OverBudget != "":
		return def.Name.Denies()
	}
	return def.Nodes.Matches(node.Labels)
}

// podAt reports whether a set of blocks has an address because of a pod. It costs the pods.
func (m *members) podAt(a netip.Addr, n ipsets.Name) bool {
	if !inBlocks(m.defs[n].Blocks, a) {
		return false
	}
	for p := range m.all() {
		if p.Addr == a && m.contains(n, p) {
			return true
		}
	}
	return false
}

// isNode reports whether a node of the cluster has an address. It costs the nodes.
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
