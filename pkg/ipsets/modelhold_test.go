package ipsets

import (
	"maps"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// seen reports whether rules may see a set; with desired, also through a nested set
// that only wants it.
func (m *model) seen(n Name, desired bool) bool {
	for r := range m.refs[n] {
		sight := m.sights[r.Owner]
		if sight != SeesNothing && (r.Kind == RefActual || r.Kind == RefPin && sight == SeesPinned) {
			return true
		}
	}
	return !n.Nested() && slices.ContainsFunc(modelNested, func(in Name) bool {
		_, there := m.view[in]
		contains := slices.Contains(m.view[in], n.ID()) || m.asks[in][n] && (desired || m.unknown[in] || !there)
		return contains && m.seen(in, desired)
	})
}

// surplus is what is in the one list and not in the other.
func surplus(have, want []string) []string {
	return slices.DeleteFunc(slices.Clone(have), func(v string) bool { return slices.Contains(want, v) })
}

func intersection(a, b []string) []string { return surplus(a, surplus(a, b)) }

// stuck are the needed sets that cannot lose what has to go.
func (m *model) stuck(n Name) bool {
	return m.needed(n) && m.defined[n] && len(surplus(m.view[n], m.value(n))) > 0 &&
		(m.unknown[n] || m.rejected(n) || m.suspects[n] || n.Nested() && m.blocked(n))
}

// lacking are the deny twins that cannot gain what has to come.
func (m *model) lacking(n Name) bool {
	if !n.Denies() || !m.needed(n) || !m.defined[n] {
		return false
	}
	joins := surplus(m.value(n), m.view[n])
	if m.unknown[n] || m.rejected(n) || m.suspects[n] || n.Nested() && m.blocked(n) {
		return len(joins) > 0
	}
	return len(intersection(joins, m.untried(n))) > 0
}

// untried are the members of a nested set that HNS lacks and may refuse.
func (m *model) untried(n Name) (ids []string) {
	for leaf := range m.asks[n] {
		if _, there := m.view[leaf]; m.suspects[leaf] && !there && leaf != Empty() && !slices.Contains(m.view[n], leaf.ID()) {
			ids = append(ids, leaf.ID())
		}
	}
	return ids
}

// staying are the values that a deny twin keeps until others have got them.
func (m *model) staying(n Name) []string {
	waiting := m.leaving()
	for leaf := range m.asks[n] {
		waiting = append(waiting, leaf.ID()) // HNS rejects it
	}
	for _, s := range modelAll {
		if !s.Denies() || !m.needed(s) || !m.defined[s] || !m.seen(s, true) {
			continue
		}
		for _, v := range surplus(m.value(s), m.view[s]) {
			switch {
			case m.lacking(s):
				waiting = append(append(waiting, v), m.within(v)...)
			case s.Nested() && !n.Nested(): // it is written after leaves
				waiting = append(waiting, m.within(v)...)
			}
		}
	}
	if !m.defined[n] || !m.seen(n, true) {
		return nil
	}
	return slices.DeleteFunc(surplus(m.view[n], m.value(n)), func(v string) bool {
		return len(intersection(append(m.within(v), v), waiting)) == 0
	})
}

// back are the values that a set has to wait for.
func (m *model) back(n Name) []string {
	if n.Denies() {
		return m.staying(n)
	}
	held := m.leaving()
	for _, s := range modelAll {
		if m.lacking(s) && m.seen(s, true) {
			for _, v := range surplus(m.value(s), m.view[s]) {
				held = append(append(held, v), m.within(v)...)
			}
		}
	}
	if !m.seen(n, false) {
		return nil
	}
	return slices.DeleteFunc(surplus(m.value(n), m.view[n]), func(v string) bool {
		return len(intersection(append(m.within(v), v), held)) == 0
	})
}

// leaving are the values that cannot leave a set that allows, and the addresses in them.
func (m *model) leaving() (held []string) {
	for _, s := range modelAll {
		if !s.Denies() && m.stuck(s) && m.seen(s, false) {
			for _, v := range surplus(m.view[s], m.value(s)) {
				held = append(append(held, v), m.within(v)...)
			}
		}
	}
	return held
}

// within are the addresses that are or will be in the set of this ID.
func (m *model) within(id string) []string {
	at := slices.IndexFunc(modelAll, func(n Name) bool { return n.ID() == id })
	if at < 0 {
		return nil
	}
	return slices.Concat(m.view[modelAll[at]], m.value(modelAll[at]))
}

// allowed is what a set may be written as.
func (m *model) allowed(n Name) []string {
	out := surplus(m.value(n), m.back(n))
	if n.Denies() {
		out = slices.Sorted(slices.Values(slices.Concat(m.value(n), m.back(n))))
	}
	return surplus(out, m.untried(n))
}

// moves reports whether writing that changes anything.
func (m *model) moves(n Name) bool {
	view, there := m.view[n]
	if n.Denies() {
		return !there || !slices.Equal(view, m.allowed(n))
	}
	return !there || len(surplus(view, m.value(n)))+len(surplus(m.allowed(n), view)) > 0
}

// apart: nobody joins a set that rules see while another one that they see still
// has to lose him, unless both is one request.
func (m *model) apart(t *rapid.T, r Write) {
	if r.Verb != Update {
		return
	}
	after := map[Name][]string{}
	for _, s := range r.Sets {
		after[s.Name] = s.Values
	}
	for _, s := range r.Sets {
		if s.Name.Denies() {
			continue
		}
		for _, v := range surplus(s.Values, m.view[s.Name]) {
			for _, other := range modelAll {
				have, written := after[other]
				if !written {
					have = m.view[other]
				}
				if !other.Denies() && m.seen(s.Name, false) && m.needed(other) && m.defined[other] && m.seen(other, false) {
					require.NotContains(t, surplus(have, m.value(other)), v, "%s joins %s and is in %s", v, s.Name, other)
				}
			}
		}
	}
}

// together: nobody leaves a deny twin that rules see while another one that they see
// still has to get him, unless both is one request.
func (m *model) together(t *rapid.T, r Write) {
	if r.Verb != Update {
		return
	}
	after := map[Name][]string{}
	for _, s := range r.Sets {
		after[s.Name] = s.Values
	}
	for _, s := range r.Sets {
		if !s.Name.Denies() || !m.seen(s.Name, false) {
			continue
		}
		for _, v := range surplus(m.view[s.Name], s.Values) {
			for _, other := range modelAll {
				have, written := after[other]
				if !written {
					have = m.view[other]
				}
				if other.Denies() && m.needed(other) && m.defined[other] && m.seen(other, false) {
					require.NotContains(t, surplus(m.value(other), have), v, "%s leaves %s and is not in %s", v, s.Name, other)
				}
			}
		}
	}
}

// crossed: no address joins a set that allows while a deny twin still has to get it, and
// none leaves a deny twin while a set that allows still has to lose it, unless both is one
// request. Rules see all of them.
func (m *model) crossed(t *rapid.T, r Write) {
	if r.Verb != Update || r.Nested {
		return
	}
	after := maps.Clone(m.view)
	for _, s := range r.Sets {
		after[s.Name] = s.Values
	}
	for _, s := range r.Sets {
		for _, other := range modelLeaves {
			if s.Name.Denies() == other.Denies() || !m.needed(other) || !m.defined[other] || !m.seen(s.Name, false) || !m.seen(other, false) {
				continue
			}
			if other.Denies() {
				late := surplus(m.value(other), after[other])
				require.Empty(t, intersection(surplus(s.Values, m.view[s.Name]), late), "they join %s before %s", s.Name, other)
			} else {
				late := surplus(after[other], m.value(other))
				require.Empty(t, intersection(surplus(m.view[s.Name], s.Values), late), "they leave %s before %s", s.Name, other)
			}
		}
	}
}

// rejects reports whether nobody may rely on a set.
func (m *model) rejects(n Name) bool {
	left := func(leaf Name) bool { return leaf != Empty() && m.rejected(leaf) }
	return m.rejected(n) || n.Denies() && slices.ContainsFunc(slices.Collect(maps.Keys(m.asks[n])), left)
}

// covers reports whether a deny twin is known to have everybody.
func (m *model) covers(n Name) bool {
	own := func(n Name) bool {
		_, there := m.view[n]
		return m.defined[n] && there && !m.unknown[n] && !m.rejects(n) && len(surplus(m.value(n), m.view[n])) == 0
	}
	if !own(n) {
		return false
	}
	for leaf := range m.asks[n] {
		if !own(leaf) {
			return false
		}
	}
	return true
}
