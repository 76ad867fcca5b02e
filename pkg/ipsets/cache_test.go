package ipsets

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	leafA  = PodLabel("app", "a")
	leafB  = PodLabel("app", "b")
	nsX    = Namespace("x")
	nsY    = Namespace("y")
	nested = NestedLabel("app", "a", "b")
	spaces = AllNamespaces()

	addr1 = netip.MustParseAddr("10.0.0.1")
	addr2 = netip.MustParseAddr("10.0.0.2")
	addr3 = netip.MustParseAddr("10.0.0.10")

	selector = Ref{RefSelector, "x/web"}
	rule     = Ref{RefRule, "ep-1"}
	onEP     = Ref{RefActual, "ep-1"}
	pin      = Ref{RefPin, "ep-1"}
)

// mustBug checks that a call is called a bug, with these words.
func mustBug(t *testing.T, words string, call func()) {
	t.Helper()
	defer func() {
		text, _ := recover().(string)
		require.True(t, strings.HasPrefix(text, "BUG: "), "panics with %q", text)
		require.Contains(t, text, words)
	}()
	call()
}

func TestMisuseIsABug(t *testing.T) {
	c := NewCache()
	c.Hold(leafA, selector)
	c.Hold(spaces, selector)
	mustBug(t, "release of podlabel-app:b", func() { c.Release(leafB, rule) })
	mustBug(t, `rule "ep-1"`, func() { c.Release(leafA, rule) })
	mustBug(t, "not defined", func() { c.AddAddr(leafB, addr1) })
	mustBug(t, "not defined", func() { c.AddMember(nested, leafA) })
	mustBug(t, "wrong type", func() { c.AddAddr(spaces, addr1) })
	mustBug(t, "wrong type", func() { c.AddMember(leafA, leafB) })
	mustBug(t, "as member", func() { c.AddMember(spaces, nested) })
	mustBug(t, "as member", func() { c.AddMember(spaces, nameOf(Observed{ID: "azure-npm-1"})) })
	mustBug(t, "permanent member", func() { c.RemoveMember(spaces, Empty()) })
	mustBug(t, "for empty-emptyhashset", func() { c.AddAddr(Empty(), addr1) })
	mustBug(t, "invalid IP", func() { c.AddAddr(leafA, netip.Addr{}) })
	mustBug(t, "fd00::1", func() { c.AddAddr(leafA, netip.MustParseAddr("fd00::1")) })
	mustBug(t, "from outside", func() { c.Hold(leafA, Ref{RefList, "nslabel-x"}) })

	other := nsX
	c.byID[leafB.ID()] = &set{name: other, id: leafB.ID()}
	mustBug(t, "one id", func() { c.Hold(leafB, selector) })
}

func TestNestedMembers(t *testing.T) {
	c := NewCache()
	c.Hold(leafA, selector)
	require.True(t, c.Hold(nested, selector))
	require.Zero(t, c.Len(nested), "the permanent member does not count")
	require.True(t, c.HasMember(nested, Empty()))
	require.Equal(t, []Ref{{RefList, nested.String()}}, c.Refs(Empty()))

	require.False(t, c.AddMember(nested, leafA), "it was defined")
	require.True(t, c.AddMember(nested, leafB), "it was not")
	require.False(t, c.AddMember(nested, leafB))
	require.False(t, c.AddMember(nested, Empty()))
	require.Equal(t, 2, c.Len(nested))
	require.True(t, c.Holds(leafB, Ref{RefList, nested.String()}))
	require.False(t, c.Holds(leafB, Ref{RefList, spaces.String()}))
	c.AddAddr(leafB, addr1)
	require.True(t, c.Contains(nested, addr1), "through its member")
	require.False(t, c.Contains(nested, addr2))

	c.RemoveMember(nested, leafB)
	require.False(t, c.HasMember(nested, leafB))
	require.False(t, c.Has(leafB), "nobody else wants it")
	require.True(t, c.AddMember(nested, leafB))
	require.Zero(t, c.Len(leafB), "it came back without members")

	c.Release(nested, selector)
	require.False(t, c.Has(nested))
	require.False(t, c.Has(leafB))
	require.False(t, c.Has(Empty()), "the last nested set is gone")
	require.True(t, c.Has(leafA))
	c.Release(leafA, selector)
	require.Empty(t, c.Snapshot())
	require.Empty(t, c.byName)
	require.Empty(t, c.byID)
}

// What may be in HNS is kept by those who still need it, as it is.
func TestAppliedRefKeepsUndefinedSet(t *testing.T) {
	c, h := NewCache(), newStrictHNS()
	old := Observed{ID: "azure-npm-77", Name: "ns-x", Values: []string{"10.0.0.1"}}
	c.Observe([]Observed{old, {ID: leafA.ID(), Name: leafA.String(), Values: []string{"10.0.0.2"}}}, nil)
	h.sets = map[string]hnsSet{}
	for _, id := range []string{"azure-npm-77", leafA.ID()} {
		n, ok := c.Lookup(id)
		require.True(t, ok)
		require.Equal(t, id, n.ID())
		require.False(t, c.Hold(n, onEP))
		require.False(t, c.Has(n))
		require.False(t, c.Ready(n))
	}
	_, ok := c.Lookup("azure-npm-78")
	require.False(t, ok)
	require.Nil(t, c.Plan(), "nobody knows what should be in it")
	require.True(t, c.Settled())
	require.Nil(t, c.PlanRemovals(c.Now, nil))

	n, _ := c.Lookup("azure-npm-77")
	c.Release(n, onEP)
	c.Release(leafA, onEP)
	require.Equal(t, "set  delete  ns-x\nset  delete  podlabel-app:a", c.PlanRemovals(c.Now, nil)[0].String())
}

func TestRefsAreSorted(t *testing.T) {
	c := NewCache()
	refs := []Ref{{RefPin, "b"}, {RefPin, "a"}, {RefActual, "a"}, {RefRule, "z"}, {RefSelector, "z"}}
	for _, r := range refs {
		c.Hold(leafA, r)
	}
	c.Hold(nested, selector)
	c.AddMember(nested, leafA)
	require.Empty(t, gocmp.Diff([]Ref{
		{RefSelector, "z"}, {RefRule, "z"}, {RefList, nested.String()}, {RefActual, "a"}, {RefPin, "a"}, {RefPin, "b"},
	}, c.Refs(leafA)))
}

// TestSetsOfPod: the sets that are visited for a pod are those that are
// defined, whatever came and went before.
func TestSetsOfPod(t *testing.T) {
	names := []Name{PodLabelKey("a"), PodLabel("a", ""), PodLabel("a", "x"), PodLabel("a", "y"), PodLabelKey("b"), Namespace("a"), Namespace("a").Deny(), Namespace("b"), PodLabelKey("a").Deny()}
	rapid.Check(t, func(t *rapid.T) {
		c, held := NewCache(), map[Name]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"hold": func(t *rapid.T) {
				n := rapid.SampledFrom(names).Draw(t, "set")
				c.Hold(n, rule)
				held[n] = true
			},
			"release": func(t *rapid.T) {
				if n := rapid.SampledFrom(names).Draw(t, "set"); held[n] {
					c.Release(n, rule)
					delete(held, n)
				}
			},
			"": func(t *rapid.T) {
				for _, value := range []string{"", "x", "z"} {
					var want, got []Name
					for n := range held {
						if hasPod(n, "a", map[string]string{"a": value}) {
							want = append(want, n)
						}
					}
					c.EachOfPod("a", map[string]string{"a": value}, func(n Name) { got = append(got, n) })
					require.ElementsMatch(t, want, got)
				}
			},
		})
	})
}

// hasPod reports whether pods of a namespace with these labels are in a set of a label, or of a namespace.
func hasPod(n Name, namespace string, labels map[string]string) bool {
	key, value, exact := strings.Cut(n.Text(), ":")
	have, has := labels[key]
	return n.Kind() == KindNamespace && n.Text() == namespace || n.Kind() == KindPodLabel && has && (!exact || have == value)
}

func TestProgrammed(t *testing.T) {
	c := NewCache()
	ns, web := Namespace("x"), PodLabel("app", "web")
	for _, n := range []Name{ns, web} {
		c.Hold(n, Ref{Kind: RefRule, Owner: "e1"})
	}
	c.Hold(ns, Ref{Kind: RefPin, Owner: "e1"})
	c.AddAddr(ns, netip.MustParseAddr("10.0.0.1"))
	require.Empty(t, c.Programmed(), "wanted is not programmed")

	c.Wrote(SetValue{Name: ns, ID: ns.ID(), Values: []string{"10.0.0.1", "10.0.0.12"}})
	c.Wrote(SetValue{Name: web, ID: web.ID()})
	got := c.Programmed()
	slices.SortFunc(got, func(a, b Programmed) int { return cmp.Compare(a.Name, b.Name) })
	require.Equal(t, []Programmed{
		{ID: ns.ID(), Name: "ns-x", Entries: 2},
		{ID: web.ID(), Name: "podlabel-app:web"},
	}, got)

	c.Removed(ns)
	c.Release(ns, Ref{Kind: RefPin, Owner: "e1"})
	require.Len(t, c.Programmed(), 1)
	require.False(t, c.Present(ns))
	require.True(t, c.Present(web))
}
