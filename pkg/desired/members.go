package desired

import (
	"iter"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// members knows which pod addresses are in which set. It keeps the definitions
// of the sets that policies mention and feeds the cache; only sets that
// somebody holds are fed.
type members struct {
	cache      *ipsets.Cache
	pods       map[PodKey]*PodState
	podGroup   podGroups
	namespaces map[string]Namespace

	// selectors are the computed pod sets by the namespace they look at, "" for
	// all; nsSelectors are the matchers of the namespace selector sets.
	selectors   map[string]map[ipsets.Name]policy.LabelMatcher
	nsSelectors map[ipsets.Name]policy.LabelMatcher

	cluster clusterNodes
	// doubting: somebody holds Doubt (doubt.go).
	doubting bool

	over overBudget
}

func newMembers(cache *ipsets.Cache) *members {
	return &members{
		cache:       cache,
		pods:        map[PodKey]*PodState{},
		podGroup:    newPodGroups(hashPods()),
		namespaces:  map[string]Namespace{},
		selectors:   map[string]map[ipsets.Name]policy.LabelMatcher{},
		nsSelectors: map[ipsets.Name]policy.LabelMatcher{},
		cluster:     newClusterNodes(),
		over:        overBudget{pods: map[PodKey]string{}, namespaces: map[string]string{}},
	}
}

// nameSet is names of sets, each once.
type nameSet map[ipsets.Name]bool

// define holds a set for a policy. Leaves that this made and that are not filled yet
// are put to made, for fill: the pods are passed once for those of many policies.
func (m *members) define(def policy.SetDef, ref ipsets.Ref, made nameSet) {
	if m.cache.Hold(def.Name, ref) {
		m.defined(def, made)
	}
}

// restore defines a set that is held, and fills it when it was not defined.
func (m *members) restore(def policy.SetDef) {
	if m.cache.Define(def.Name) {
		m.fillNew(def)
	}
}

// fillNew fills a set that is new in the cache.
func (m *members) fillNew(def policy.SetDef) {
	made := nameSet{}
	m.defined(def, made)
	m.fill(made)
}

// defined takes over the definition of a new set.
func (m *members) defined(def policy.SetDef, made nameSet) {
	switch def.Name.Kind() {
	case ipsets.KindPodSelector:
		if m.selectors[def.Namespace] == nil {
			m.selectors[def.Namespace] = map[ipsets.Name]policy.LabelMatcher{}
		}
		m.selectors[def.Namespace][def.Name] = def.Pods
		for k := range m.scope(def.Namespace) {
			if k.choose(def.Name, def.Pods) {
				m.enterGroup(k, def.Name)
			}
		}
	case ipsets.KindNamespaceSelector:
		m.nsSelectors[def.Name] = def.Namespaces
		for _, ns := range m.namespaces {
			if ns.OverBudget == "" && def.Namespaces.Matches(ns.Labels) {
				m.join(def.Name, ofSame(def.Name, ipsets.Namespace(ns.Name)), made)
			}
		}
	case ipsets.KindNestedLabel:
		for _, leaf := range def.Members {
			m.join(def.Name, leaf, made)
		}
	case ipsets.KindNodes:
		m.cluster.sets[def.Name] = &nodeSet{match: def.Nodes}
		m.fillNodes(def.Name, m.cluster.sets[def.Name])
	case ipsets.KindInBlocks:
		m.cluster.blocks[def.Name] = def.Blocks
		m.fillBlocks(def.Name, def.Blocks)
	case ipsets.KindDoubt:
		m.doubtAll(made)
	default:
		made[def.Name] = true
	}
}

// join puts a leaf into a nested set, and to made when that made it.
func (m *members) join(nested, leaf ipsets.Name, made nameSet) {
	if m.cache.AddMember(nested, leaf) {
		made[leaf] = true
	}
}

// undefine drops the definitions of sets that nobody holds any more. It passes the
// pods that computed ones look at once for all of them.
func (m *members) undefine(gone nameSet) {
	scopes := map[string]bool{} // of the computed ones
	for n := range gone {
		switch n.Kind() {
		case ipsets.KindPodSelector:
			ns, _, _ := strings.Cut(n.Text(), "/")
			scopes[ns] = true
			delete(m.selectors[ns], n)
			if len(m.selectors[ns]) == 0 {
				delete(m.selectors, ns)
			}
		case ipsets.KindNamespaceSelector:
			delete(m.nsSelectors, n)
		case ipsets.KindNodes:
			delete(m.cluster.sets, n)
		case ipsets.KindInBlocks:
			delete(m.cluster.blocks, n)
		case ipsets.KindDoubt:
			m.doubting = false
		default: // the name is the definition
		}
	}
	for ns := range scopes {
		for k := range m.scope(ns) {
			k.forget(gone)
		}
	}
}

// fill puts every pod into the leaves of these that it belongs to by its namespace or
// a label; other leaves have their own ways. It costs the pod groups there are, and the
// members.
func (m *members) fill(made nameSet) {
	labels := false
	for leaf := range made {
		switch leaf.Kind() {
		case ipsets.KindNamespace:
			for k := range m.podGroup.in(leaf.Text()) {
				m.enterGroup(k, leaf)
			}
		case ipsets.KindDoubtAddrs:
			m.fillDoubt()
		default:
			labels = true
		}
	}
	if !labels {
		return
	}
	for k := range m.podGroup.all() {
		for key, value := range k.labels {
			m.cache.EachPodLabel(key, value, func(leaf ipsets.Name) {
				if made[leaf] {
					m.enterGroup(k, leaf)
				}
			})
		}
	}
}

// enterGroup puts the pods of a group into a leaf.
func (m *members) enterGroup(k *podGroup, leaf ipsets.Name) {
	for _, p := range k.pods {
		if p.inSets() {
			m.cache.AddAddr(leaf, p.Addr)
		}
	}
}

// scope yields the pod groups that a computed set looks at.
func (m *members) scope(namespace string) iter.Seq[*podGroup] {
	if namespace == "" {
		return m.podGroup.all()
	}
	return m.podGroup.in(namespace)
}

// eachSet visits the leaves that the pod belongs to, of those that are held;
// named port sets are fed by namedPortSets.
func (m *members) eachSet(p *PodState, visit func(ipsets.Name)) {
	if p == nil {
		return
	}
	held := func(n ipsets.Name) {
		if m.cache.Has(n) {
			visit(n)
		}
	}
	m.eachBlockSet(p, visit)
	if p.doubtful() {
		held(ipsets.DoubtAddrs())
	}
	if !p.inSets() {
		return
	}
	held(ipsets.Namespace(p.Namespace))
	held(ipsets.Namespace(p.Namespace).Deny())
	for k, v := range p.Labels {
		m.cache.EachPodLabel(k, v, visit)
	}
	for _, n := range p.podGroup.chosen {
		held(n)
	}
}

// leave takes a pod out of the sets of what it was.
func (m *members) leave(was *PodState) {
	m.eachSet(was, func(n ipsets.Name) {
		if n.Kind() != ipsets.KindInBlocks || m.cluster.addrs[was.Addr] == 0 {
			m.cache.RemoveAddr(n, was.Addr)
		}
	})
}

// enter puts a pod into the sets of what it is.
func (m *members) enter(is *PodState) {
	m.eachSet(is, func(n ipsets.Name) { m.cache.AddAddr(n, is.Addr) })
}

// setNamespace records a Namespace object and moves its set in and out of the
// namespace selectors; of one that is over its budget the labels are not known, so
// it is in none. Only nested sets change.
func (m *members) setNamespace(ns Namespace) {
	m.namespaces[ns.Name] = ns
	noteExcess(m.over.namespaces, ns.Name, ns.OverBudget)
	made := nameSet{}
	for n, match := range m.nsSelectors {
		leaf := ofSame(n, ipsets.Namespace(ns.Name))
		if ns.OverBudget == "" && match.Matches(ns.Labels) {
			m.join(n, leaf, made)
		} else {
			m.cache.RemoveMember(n, leaf)
		}
	}
	m.fill(made)
	m.doubt(ns.Name)
}

// deleteNamespace takes the namespace out of every selector: what is not known
// is in none, not even in a negative one.
func (m *members) deleteNamespace(name string) {
	delete(m.namespaces, name)
	noteExcess(m.over.namespaces, name, "")
	for n := range m.nsSelectors {
		m.cache.RemoveMember(n, ofSame(n, ipsets.Namespace(name)))
	}
	m.doubt(name)
}

// labels returns the labels of a namespace, and whether there is such an object.
func (m *members) labels(namespace string) (map[string]string, bool) {
	ns, known := m.namespaces[namespace]
	return ns.Labels, known
}

// put records a pod in the indexes, in place of what its name was.
func (m *members) put(p *PodState) {
	key := p.Key()
	was := m.pods[key]
	m.pods[key] = p
	if !p.IsLost() { // a lost pod has no object that a warning could be about
		noteExcess(m.over.pods, key, p.OverBudget)
	}
	if was != nil && was.podGroup.like(p.Pod) {
		m.podGroup.replace(was, p)
		return
	}
	if was != nil {
		m.podGroup.remove(was)
	}
	if !m.podGroup.add(p) {
		return
	}
	for _, ns := range []string{"", p.Namespace} {
		for n, match := range m.selectors[ns] {
			p.podGroup.choose(n, match)
		}
	}
	m.doubt(p.Namespace)
}

// drop forgets a pod.
func (m *members) drop(key PodKey) {
	if p := m.pods[key]; p != nil {
		delete(m.pods, key)
		m.podGroup.remove(p)
		noteExcess(m.over.pods, key, "")
		m.doubt(key.Namespace)
	}
}

// choose puts a computed set to those of the pods that it selects, and reports whether
// it does. It is a new one to them.
func (k *podGroup) choose(n ipsets.Name, match policy.LabelMatcher) bool {
	selects := match.Matches(k.labels)
	if selects {
		k.chosen = append(k.chosen, n)
	}
	return selects
}

// forget takes sets from those of the group, and gives back the memory of many.
func (k *podGroup) forget(gone nameSet) {
	k.chosen = slices.DeleteFunc(k.chosen, func(n ipsets.Name) bool { return gone[n] })
	if 2*len(k.chosen) < cap(k.chosen) {
		k.chosen = slices.Clip(slices.Clone(k.chosen))
	}
}
