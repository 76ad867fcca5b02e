package ipsets

import (
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// seen reports whether rules may see a set; with wished, also through a nested set
// that only wants it.
func (m *model) seen(n Name, wished bool) bool {
	for r := range m.refs[n] {
		sight := m.sights[r.Owner]
		if sight != SeesNothing && (r.Kind == RefApplied || r.Kind == RefPin && sight == SeesPinned) {
			return true
		}
	}
	return !n.Nested() && slices.ContainsFunc(modelNested, func(in Name) bool {
		contains := slices.Contains(m.view[in], n.ID()) || m.asks[in][n] && (wished || m.unknown[in])
		return contains && m.seen(in, wished)
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

// back are the values that a set has to wait for.
func (m *model) back(n Name) []string {
	var held []string
	for _, s := range modelAll {
		if m.stuck(s) && m.seen(s, false) {
			for _, v := range surplus(m.view[s], m.value(s)) {
				held = append(append(held, v), m.within(v)...)
			}
		}
	}
	if !m.seen(n, true) {
		return nil
	}
	return slices.DeleteFunc(surplus(m.value(n), m.view[n]), func(v string) bool {
		return len(intersection(append(m.within(v), v), held)) == 0
	})
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
	if n.Nested() {
		for leaf := range m.asks[n] {
			_, there := m.view[leaf]
			if m.suspects[leaf] && !there && leaf != Empty() && !slices.Contains(m.view[n], leaf.ID()) {
				out = surplus(out, []string{leaf.ID()})
			}
		}
	}
	return out
}

// moves reports whether writing that changes anything.
func (m *model) moves(n Name) bool {
	view, there := m.view[n]
	return !there || len(surplus(view, m.value(n)))+len(surplus(m.allowed(n), view)) > 0
}

// apart: nobody joins a set that rules see while another one that they see still
// has to lose him, unless both is one request.
func (m *model) apart(t *rapid.T, r Request) {
	if r.Verb != Update {
		return
	}
	after := map[Name][]string{}
	for _, s := range r.Sets {
		after[s.Name] = s.Values
	}
	for _, s := range r.Sets {
		for _, v := range surplus(s.Values, m.view[s.Name]) {
			for _, other := range modelAll {
				have, written := after[other]
				if !written {
					have = m.view[other]
				}
				if m.seen(s.Name, false) && m.needed(other) && m.defined[other] && m.seen(other, false) {
					require.NotContains(t, surplus(have, m.value(other)), v, "%s joins %s and is in %s", v, s.Name, other)
				}
			}
		}
	}
}
