package dataplane

import (
	"iter"
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/pieces"
	"github.com/winnpm/winnpm/pkg/policy"
)

// members knows which pod addresses are in which set. It keeps the definitions
// of the sets that policies mention and feeds the cache; only sets that
// somebody holds are fed. Guarded by Dataplane.mu.
type members struct {
	cache      *ipsets.Cache
	pods       map[PodKey]*podState
	kin        kinIndex
	namespaces map[string]Namespace

	// selectors are the computed pod sets by the namespace they look at, "" for
	// all; nsSelectors are the matchers of the namespace selector sets.
	selectors   map[string]map[ipsets.Name]policy.LabelMatcher
	nsSelectors map[ipsets.Name]policy.LabelMatcher

	over overBudget

	podCopies       pieces.Copies[PodKey, *podState]
	namespaceCopies pieces.Copies[string, Namespace]
}

func newMembers(cache *ipsets.Cache) *members {
	return &members{
		cache:       cache,
		pods:        map[PodKey]*podState{},
		kin:         newKinIndex(hashPods()),
		namespaces:  map[string]Namespace{},
		selectors:   map[string]map[ipsets.Name]policy.LabelMatcher{},
		nsSelectors: map[ipsets.Name]policy.LabelMatcher{},
		over:        newOverBudget(),
	}
}

// define holds a set for a policy and fills it when that made it.
func (m *members) define(def policy.SetDef, ref ipsets.Ref) {
	if m.cache.Hold(def.Name, ref) {
		m.fillDefined(def)
	}
}

// restore defines a set that is held, and fills it when it was not defined.
func (m *members) restore(def policy.SetDef) {
	if m.cache.Define(def.Name) {
		m.fillDefined(def)
	}
}

// fillDefined takes over the definition of a new set and fills it.
func (m *members) fillDefined(def policy.SetDef) {
	switch def.Name.Kind() {
	case ipsets.KindPodSelector:
		if m.selectors[def.Namespace] == nil {
			m.selectors[def.Namespace] = map[ipsets.Name]policy.LabelMatcher{}
		}
		m.selectors[def.Namespace][def.Name] = def.Pods
		for k := range m.scope(def.Namespace) {
			k.choose(def.Name, def.Pods)
		}
		m.fill(def.Name)
	case ipsets.KindNamespaceSelector:
		m.nsSelectors[def.Name] = def.Namespaces
		for _, ns := range m.namespaces {
			if ns.OverBudget == "" && def.Namespaces.Matches(ns.Labels) {
				m.join(def.Name, ipsets.Namespace(ns.Name))
			}
		}
	case ipsets.KindNestedLabel:
		for _, leaf := range def.Members {
			m.join(def.Name, leaf)
		}
	default:
		m.fill(def.Name)
	}
}

// join puts a leaf into a nested set and fills it when that made it.
func (m *members) join(nested, leaf ipsets.Name) {
	if m.cache.AddMember(nested, leaf) {
		m.fill(leaf)
	}
}

// undefine drops the definition of a set that nobody holds any more.
func (m *members) undefine(n ipsets.Name) {
	switch n.Kind() {
	case ipsets.KindPodSelector:
		for ns, sets := range m.selectors {
			if _, ok := sets[n]; !ok {
				continue
			}
			for k := range m.scope(ns) {
				k.chosen = slices.DeleteFunc(k.chosen, func(o ipsets.Name) bool { return o == n })
			}
			delete(sets, n)
			if len(sets) == 0 {
				delete(m.selectors, ns)
			}
		}
	case ipsets.KindNamespaceSelector:
		delete(m.nsSelectors, n)
	default: // the name is the definition
	}
}

// fill puts every pod into a leaf that it belongs to; named port sets are the
// families' own. It costs the kin there are, and the members.
func (m *members) fill(leaf ipsets.Name) {
	enter := func(k *kin) {
		for _, p := range k.pods {
			if p.inSets() {
				m.cache.AddAddr(leaf, p.Addr)
			}
		}
	}
	if leaf.Kind() == ipsets.KindNamespace {
		for k := range m.kin.in(leaf.Text()) {
			enter(k)
		}
		return
	}
	for k := range m.kin.all() {
		if leaf.HasPodLabel(k.labels) || slices.Contains(k.chosen, leaf) {
			enter(k)
		}
	}
}

// scope yields the kin that a computed set looks at.
func (m *members) scope(namespace string) iter.Seq[*kin] {
	if namespace == "" {
		return m.kin.all()
	}
	return m.kin.in(namespace)
}

// eachSet visits the leaves that the pod belongs to, of those that are held;
// named port sets are the families' own.
func (m *members) eachSet(p *podState, visit func(ipsets.Name)) {
	if p == nil || !p.inSets() {
		return
	}
	held := func(n ipsets.Name) {
		if m.cache.Has(n) {
			visit(n)
		}
	}
	held(ipsets.Namespace(p.Namespace))
	for k, v := range p.Labels {
		m.cache.EachPodLabel(k, v, visit)
	}
	for _, n := range p.kin.chosen {
		held(n)
	}
}

// leave takes a pod out of the sets of what it was.
func (m *members) leave(was *podState) {
	m.eachSet(was, func(n ipsets.Name) { m.cache.RemoveAddr(n, was.Addr) })
}

// enter puts a pod into the sets of what it is.
func (m *members) enter(is *podState) {
	m.eachSet(is, func(n ipsets.Name) { m.cache.AddAddr(n, is.Addr) })
}

// setNamespace records a Namespace object and moves its set in and out of the
// namespace selectors; of one that is over its budget the labels are not known, so
// it is in none. Only nested sets change.
func (m *members) setNamespace(ns Namespace) {
	m.namespaceCopies.Before(ns.Name)
	m.namespaces[ns.Name] = ns
	m.over.setNamespace(ns.Name, ns.OverBudget)
	leaf := ipsets.Namespace(ns.Name)
	for n, match := range m.nsSelectors {
		if ns.OverBudget == "" && match.Matches(ns.Labels) {
			m.join(n, leaf)
		} else {
			m.cache.RemoveMember(n, leaf)
		}
	}
}

// deleteNamespace takes the namespace out of every selector: what is not known
// is in none, not even in a negative one.
func (m *members) deleteNamespace(name string) {
	m.namespaceCopies.Before(name)
	delete(m.namespaces, name)
	m.over.setNamespace(name, "")
	for n := range m.nsSelectors {
		m.cache.RemoveMember(n, ipsets.Namespace(name))
	}
}

// labels returns the labels of a namespace, and whether there is such an object.
func (m *members) labels(namespace string) (map[string]string, bool) {
	ns, known := m.namespaces[namespace]
	return ns.Labels, known
}

// put records a pod in the indexes, in place of what its name was.
func (m *members) put(p *podState) {
	key := p.Key()
	m.podCopies.Before(key)
	was := m.pods[key]
	m.pods[key] = p
	m.over.setPod(key, p.OverBudget)
	if was != nil && was.kin.like(p.Pod) {
		m.kin.replace(was, p)
		return
	}
	if was != nil {
		m.kin.remove(was)
	}
	if !m.kin.add(p) {
		return
	}
	for _, ns := range []string{"", p.Namespace} {
		for n, match := range m.selectors[ns] {
			p.kin.choose(n, match)
		}
	}
}

// drop forgets a pod.
func (m *members) drop(key PodKey) {
	if p := m.pods[key]; p != nil {
		m.podCopies.Before(key)
		delete(m.pods, key)
		m.kin.remove(p)
		m.over.setPod(key, "")
	}
}

// choose puts a computed set to those of the kin, if it selects them.
func (k *kin) choose(n ipsets.Name, match policy.LabelMatcher) {
	if match.Matches(k.labels) && !slices.Contains(k.chosen, n) {
		k.chosen = append(k.chosen, n)
	}
}
