package ipsets

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is the naive twin of a Cache: maps of what callers asked for, and the
// HNS itself in place of what was recorded of it.
type model struct {
	defined map[Name]bool
	refs    map[Name]map[Ref]bool
	addrs   map[Name]map[string]bool // of defined leaves
	asks    map[Name]map[Name]bool   // of defined nested sets, with the filler
	refused map[Name]string          // content that HNS refused, as text
	unknown map[Name]bool
	view    map[Name][]string // what is known to be in HNS, sorted
	told    map[Name]bool     // orphans, at the last check

	suspects map[Name]bool    // of the Cache
	sights   map[string]Sight // by owner
}

var (
	modelLeaves = []Name{leafA, leafB, nsX, nsY, PodSelector("x", "!app")}
	modelNested = []Name{nested, spaces, NamespaceSelector("!team")}
	modelAll    = slices.Concat(modelLeaves, modelNested, []Name{Empty()})
	modelAddrs  = []netip.Addr{addr1, addr2, addr3, poison}

	// poison is an address that the HNS of the model refuses in any set.
	poison = netip.MustParseAddr("10.0.0.13")
)

func newModel() *model {
	return &model{
		defined: map[Name]bool{}, refs: map[Name]map[Ref]bool{}, addrs: map[Name]map[string]bool{},
		asks: map[Name]map[Name]bool{}, refused: map[Name]string{}, unknown: map[Name]bool{}, view: map[Name][]string{},
		told: map[Name]bool{}, suspects: map[Name]bool{}, sights: map[string]Sight{},
	}
}

func (m *model) hold(n Name, r Ref) (created bool) {
	if m.refs[n] == nil {
		m.refs[n] = map[Ref]bool{}
	}
	m.refs[n][r] = true
	return (r.Kind == RefSelector || r.Kind == RefRule) && m.define(n)
}

func (m *model) define(n Name) (created bool) {
	created = !m.defined[n]
	m.defined[n] = true
	if created && n.Nested() {
		m.ask(n, Empty())
	}
	return created
}

func (m *model) ask(n, leaf Name) (created bool) {
	if m.asks[n] == nil {
		m.asks[n] = map[Name]bool{}
	}
	m.asks[n][leaf] = true
	return m.define(leaf)
}

// kept reports whether a nested set that a rule may name has a leaf in HNS that
// it does not want.
func (m *model) kept(n, leaf Name) bool {
	return n.Nested() && !m.asks[n][leaf] && slices.Contains(m.view[n], leaf.ID()) && m.needed(n)
}

// orphans are the sets that rules may see and nobody defined.
func (m *model) orphans() map[Name]bool {
	out := map[Name]bool{}
	for _, n := range modelAll {
		if _, there := m.view[n]; there && !m.unknown[n] && !m.defined[n] && m.needed(n) {
			out[n] = true
		}
	}
	return out
}

// drop undefines what nobody holds or wants, until nothing changes.
func (m *model) drop() {
	for again := true; again; {
		again = false
		for _, n := range modelAll {
			if m.defined[n] && len(m.refs[n]) == 0 && !m.asked(n) {
				delete(m.defined, n)
				delete(m.addrs, n)
				delete(m.asks, n)
				delete(m.refused, n)
				again = true
			}
		}
	}
}

// askers are the nested sets that want or keep the leaf.
func (m *model) askers(leaf Name) []Name {
	var out []Name
	for _, n := range modelNested {
		if m.asks[n][leaf] || m.kept(n, leaf) {
			out = append(out, n)
		}
	}
	return out
}

func (m *model) asked(leaf Name) bool { return !leaf.Nested() && len(m.askers(leaf)) > 0 }

func (m *model) needed(n Name) bool {
	for r := range m.refs[n] {
		if r.Kind != RefSelector {
			return true
		}
	}
	return !n.Nested() && slices.ContainsFunc(m.askers(n), m.needed)
}

// value is what should be in HNS, sorted; of a nested set without the members
// that HNS rejects.
func (m *model) value(n Name) []string {
	out := slices.Collect(maps.Keys(m.addrs[n]))
	if n.Nested() {
		for leaf := range m.asks[n] {
			if leaf == Empty() || !m.rejected(leaf) {
				out = append(out, leaf.ID())
			}
		}
	}
	slices.Sort(out)
	return out
}

func (m *model) rejected(n Name) bool {
	text, ok := m.refused[n]
	return ok && text == joined(m.value(n))
}

// forget ends what is known of a rejection once other content is desired.
func (m *model) forget() {
	maps.DeleteFunc(m.refused, func(n Name, _ string) bool { return !m.rejected(n) })
}

func joined(values []string) string {
	text := ""
	for _, v := range values {
		text += v + ","
	}
	return text
}

func (m *model) dirty(n Name) bool {
	view, there := m.view[n]
	return m.defined[n] && (!there || !slices.Equal(view, m.value(n)))
}

// blocked reports whether a nested set wants a member of which it is not known
// that it is there.
func (m *model) blocked(n Name) bool {
	for leaf := range m.asks[n] {
		if m.unknown[leaf] && !m.rejected(leaf) && !slices.Contains(m.view[n], leaf.ID()) {
			return true
		}
		if _, there := m.view[leaf]; leaf == Empty() && (m.rejected(leaf) || m.suspects[leaf] && !there) {
			return true
		}
	}
	return false
}

func (m *model) ready(n Name) bool {
	own := func(n Name) bool {
		_, there := m.view[n]
		return m.defined[n] && there && !m.unknown[n] && !m.dirty(n) && !m.rejected(n)
	}
	if !own(n) {
		return false
	}
	for leaf := range m.asks[n] {
		if !m.rejected(leaf) && !own(leaf) {
			return false
		}
	}
	return true
}

// planned are the sets that Plan must write, exactly.
func (m *model) planned() map[Name]bool {
	out := map[Name]bool{}
	for _, n := range modelAll {
		if m.needed(n) && m.dirty(n) && !m.unknown[n] && !m.rejected(n) && !m.blocked(n) && m.moves(n) {
			out[n] = true
		}
	}
	return out
}

func (m *model) settled() bool {
	return !slices.ContainsFunc(modelAll, func(n Name) bool {
		return m.needed(n) && (m.dirty(n) || m.unknown[n] || m.rejected(n))
	})
}

// removable are the sets that may go, whatever the grace period.
func (m *model) removable() map[Name]bool {
	out := map[Name]bool{}
	anyUnknown := slices.ContainsFunc(modelNested, func(n Name) bool { return m.unknown[n] })
	for _, n := range slices.Concat(modelNested, modelLeaves, []Name{Empty()}) {
		if _, there := m.view[n]; !there || m.unknown[n] || m.needed(n) || !n.Nested() && anyUnknown {
			continue
		}
		stays := func(in Name) bool { return slices.Contains(m.view[in], n.ID()) && !out[in] }
		if n.Nested() || !slices.ContainsFunc(modelNested, stays) {
			out[n] = true
		}
	}
	return out
}

// see takes over what HNS has.
func (m *model) see(h *strictHNS) {
	clear(m.unknown)
	clear(m.view)
	for id, s := range h.sets {
		if n := nameOf(Observed{ID: id, Name: s.name, Nested: s.nested}); n.known() {
			m.view[n] = slices.Sorted(slices.Values(s.values))
		}
	}
}

// wrote records a request that succeeded.
func (m *model) wrote(r Write) {
	for _, s := range r.Sets {
		if r.Verb == Remove {
			delete(m.view, s.Name)
		} else {
			if m.rejected(s.Name) {
				delete(m.refused, s.Name)
			}
			m.view[s.Name] = slices.Sorted(slices.Values(s.Values))
		}
	}
}

// check compares a Cache with the model, method by method.
func (m *model) check(t *rapid.T, c *Cache) {
	for _, n := range modelAll {
		require.Equal(t, m.defined[n], c.Has(n), "Has %s", n)
		require.Equal(t, m.unknown[n], c.find(n) != nil && c.find(n).unknown, "unknown %s", n)
		require.Equal(t, m.rejects(n), c.Rejected(n), "Rejected %s", n)
		require.Equal(t, m.ready(n), c.Ready(n), "Ready %s", n)
		require.Equal(t, len(m.addrs[n])+max(len(m.asks[n])-1, 0), c.Len(n), "Len %s", n)
		explicit := map[Ref]bool{}
		for _, r := range c.Refs(n) {
			if r.Kind != RefList {
				explicit[r] = true
			}
		}
		require.Equal(t, len(m.refs[n]), len(explicit), "refs of %s", n)
		for r := range m.refs[n] {
			require.True(t, explicit[r] && c.Holds(n, r), "%v holds %s", r, n)
		}
		for _, a := range modelAddrs {
			in := m.addrs[n][a.String()]
			for leaf := range m.asks[n] {
				in = in || m.addrs[leaf][a.String()]
			}
			require.Equal(t, in, c.Contains(n, a), "%s in %s", a, n)
		}
		for _, in := range modelNested {
			require.Equal(t, m.asks[in][n], c.HasMember(in, n), "%s in %s", n, in)
			held := m.asks[in][n] || slices.Contains(m.view[in], n.ID())
			require.Equal(t, held, c.Holds(n, Ref{RefList, in.String()}), "%s holds %s", in, n)
		}
	}
	require.Equal(t, len(m.unknown) > 0, c.HasUnknown())
	doubted := slices.ContainsFunc(modelAll, func(n Name) bool { return m.unknown[n] && m.needed(n) })
	require.Equal(t, !c.Observed() || doubted, c.InDoubt())
	require.Equal(t, slices.ContainsFunc(modelAll, func(n Name) bool { return m.needed(n) && len(m.back(n)) > 0 }), c.HeldBack())
	for _, n := range modelAll {
		require.Equal(t, m.stuck(n), c.Stuck(n), "Stuck %s", n)
		require.False(t, c.Ready(n) && !c.Closed(n), "Ready and not Closed: %s", n)
		require.False(t, c.Closed(n) && len(surplus(m.view[n], m.value(n))) > 0, "Closed %s", n)
		if n.Denies() {
			require.Equal(t, m.covers(n), c.Covers(n), "Covers %s", n)
		}
	}
	require.Equal(t, m.settled(), c.Settled())
	require.Len(t, c.byName, len(c.byID), "an entry has one name and one id")
	m.checkOrphans(t, c)
	m.checkPlans(t, c)
}

// fed reports whether the set is defined, though no policy, rule or defined set asks for it.
func (m *model) fed(n Name) bool {
	asks := func(r Ref) bool { return r.Kind == RefSelector || r.Kind == RefRule }
	wants := func(l Name) bool { return m.asks[l][n] }
	return m.defined[n] && !slices.ContainsFunc(slices.Collect(maps.Keys(m.refs[n])), asks) && !slices.ContainsFunc(modelNested, wants)
}

// checkOrphans: what became an orphan since the last check is told once.
func (m *model) checkOrphans(t *rapid.T, c *Cache) {
	is := m.orphans()
	told := map[Name]bool{}
	for _, n := range c.TakeOrphans() {
		require.True(t, is[n], "%s is no orphan", n)
		told[n] = true
	}
	for n := range is {
		require.True(t, told[n] || m.told[n], "%s is an orphan", n)
		if n.Nested() {
			members, exact := c.Contained(n)
			require.True(t, exact)
			require.Len(t, members, len(m.view[n])-1, "without the permanent member")
		}
	}
	m.told = is
}

// checkPlans compares both plans with the sets that belong in them.
func (m *model) checkPlans(t *rapid.T, c *Cache) {
	final := map[Name][]string{}
	for _, r := range c.Plan() {
		for _, s := range r.Sets {
			require.Equal(t, m.suspects[s.Name], r.Search, "%s", s.Name)
			require.NotContains(t, final, s.Name, "twice in a plan")
			final[s.Name] = slices.Sorted(slices.Values(s.Values))
			require.True(t, slices.Equal(m.allowed(s.Name), final[s.Name]), "%s is written as %v", s.Name, s.Values)
		}
	}
	require.Equal(t, m.planned(), namesOf(c.Plan()))
	require.Equal(t, m.removable(), namesOf(c.PlanRemovals(c.Now, nil)))
	for n := range m.view {
		_, ok := c.Lookup(n.ID())
		require.True(t, ok, "%s is in HNS", n)
	}
}

func namesOf(plan []Write) map[Name]bool {
	out := map[Name]bool{}
	for _, r := range plan {
		for _, s := range r.Sets {
			out[s.Name] = true
		}
	}
	return out
}
