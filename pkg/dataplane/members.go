package dataplane

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// members knows which pod addresses are in which set. It keeps the definitions
// of the sets that policies mention and feeds the cache; only sets that
// somebody holds are fed. Guarded by Dataplane.mu.
type members struct {
	cache      *ipsets.Cache
	pods       map[PodKey]*podState
	byUID      map[types.UID]*podState
	byNS       map[string]map[PodKey]*podState
	namespaces map[string]Namespace

	// selectors are the computed pod sets by the namespace they look at, "" for
	// all; nsSelectors are the matchers of the namespace selector sets.
	selectors   map[string]map[ipsets.Name]policy.LabelMatcher
	nsSelectors map[ipsets.Name]policy.LabelMatcher
}

func newMembers(cache *ipsets.Cache) *members {
	return &members{
		cache:       cache,
		pods:        map[PodKey]*podState{},
		byUID:       map[types.UID]*podState{},
		byNS:        map[string]map[PodKey]*podState{},
		namespaces:  map[string]Namespace{},
		selectors:   map[string]map[ipsets.Name]policy.LabelMatcher{},
		nsSelectors: map[ipsets.Name]policy.LabelMatcher{},
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
		m.fill(def.Name)
	case ipsets.KindNamespaceSelector:
		m.nsSelectors[def.Name] = def.Namespaces
		for _, ns := range m.namespaces {
			if def.Namespaces.Matches(ns.Labels) {
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

// fill puts every pod into a leaf that it belongs to.
func (m *members) fill(leaf ipsets.Name) {
	if leaf.Kind() == ipsets.KindNamespace {
		for _, p := range m.byNS[leaf.Text()] {
			if p.member {
				m.cache.AddAddr(leaf, p.Addr)
			}
		}
		return
	}
	for _, p := range m.pods {
		if p.member && m.belongs(leaf, p) {
			m.cache.AddAddr(leaf, p.Addr)
		}
	}
}

// belongs reports whether a member pod is in a leaf that is no namespace set.
func (m *members) belongs(leaf ipsets.Name, p *podState) bool {
	switch leaf.Kind() {
	case ipsets.KindPodLabel:
		key, value, exact := strings.Cut(leaf.Text(), ":")
		have, ok := p.Labels[key]
		return ok && (!exact || have == value)
	case ipsets.KindPodSelector:
		for _, ns := range []string{"", p.Namespace} {
			if match, ok := m.selectors[ns][leaf]; ok {
				return match.Matches(p.Labels)
			}
		}
	default: // namespaces and named ports are filled elsewhere
	}
	return false
}

// eachSet visits the leaves that the pod belongs to, of those that are held;
// named port sets are the families' own.
func (m *members) eachSet(p *podState, visit func(ipsets.Name)) {
	if p == nil || !p.member {
		return
	}
	held := func(n ipsets.Name) {
		if m.cache.Has(n) {
			visit(n)
		}
	}
	held(ipsets.Namespace(p.Namespace))
	for k, v := range p.Labels {
		held(ipsets.PodLabelKey(k))
		held(ipsets.PodLabel(k, v))
	}
	for _, ns := range []string{"", p.Namespace} {
		for n, match := range m.selectors[ns] {
			if match.Matches(p.Labels) {
				held(n)
			}
		}
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
// namespace selectors. Only nested sets change.
func (m *members) setNamespace(ns Namespace) {
	m.namespaces[ns.Name] = ns
	leaf := ipsets.Namespace(ns.Name)
	for n, match := range m.nsSelectors {
		if match.Matches(ns.Labels) {
			m.join(n, leaf)
		} else {
			m.cache.RemoveMember(n, leaf)
		}
	}
}

// deleteNamespace takes the namespace out of every selector: what is not known
// is in none, not even in a negative one.
func (m *members) deleteNamespace(name string) {
	delete(m.namespaces, name)
	for n := range m.nsSelectors {
		m.cache.RemoveMember(n, ipsets.Namespace(name))
	}
}

// put records a pod in the indexes, in place of what its name was.
func (m *members) put(p *podState) {
	m.drop(p.Key())
	m.pods[p.Key()] = p
	m.byUID[p.UID] = p
	if m.byNS[p.Namespace] == nil {
		m.byNS[p.Namespace] = map[PodKey]*podState{}
	}
	m.byNS[p.Namespace][p.Key()] = p
}

// drop forgets a pod.
func (m *members) drop(key PodKey) {
	p := m.pods[key]
	if p == nil {
		return
	}
	delete(m.pods, key)
	delete(m.byUID, p.UID)
	delete(m.byNS[key.Namespace], key)
	if len(m.byNS[key.Namespace]) == 0 {
		delete(m.byNS, key.Namespace)
	}
}
