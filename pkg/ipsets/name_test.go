package ipsets

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The ids are computed by hand from the predecessor's rule; they must never
// change, or a replacement rewrites every set.
func TestNames(t *testing.T) {
	for _, tc := range []struct {
		name   Name
		text   string
		id     string
		nested bool
	}{
		{Namespace("x"), "ns-x", "azure-npm-5ceop0zrwrj56cyuiub5", false},
		{PodLabel("app", "web"), "podlabel-app:web", "azure-npm-59kyrqgp6q7laa0ahopm", false},
		{PodLabelKey("app"), "podlabel-app", "", false},
		{PodSelector("x", "app notin (a,b)"), "podselector-x/app notin (a,b)", "", false},
		{PodSelector("", "!app"), "podselector-/!app", "", false},
		{NamedPort("http", "TCP", 8080), "namedport:http:TCP:8080", "", false},
		{NamedPortIn("10.0.0.0/8", "http", "TCP", 80), "namedport:http:TCP:80@10.0.0.0/8", "", false},
		{Empty(), "empty-emptyhashset", "azure-npm-ngnfz42mtqjbw8ffiwmj", false},
		{NestedLabel("app", "v2", "v1", "v2"), "nestedlabel-app:v1:v2", "", true},
		{AllNamespaces(), "nslabel-all-namespaces", "azure-npm-gcmk2hdba149zrugxkm4", true},
		{NamespaceLabel("team", "a"), "nslabel-team:a", "", true},
		{NamespaceSelector("!team"), "nslabel-{!team}", "", true},
	} {
		t.Run(tc.text, func(t *testing.T) {
			require.Equal(t, tc.text, tc.name.String())
			require.Equal(t, tc.nested, tc.name.Nested())
			require.True(t, tc.name.known())
			require.Regexp(t, `^azure-npm-[0-9a-z]{20}$`, tc.name.ID())
			if tc.id != "" {
				require.Equal(t, tc.id, tc.name.ID())
			}
			require.Equal(t, tc.name, nameOf(Observed{ID: tc.name.ID(), Name: tc.text, Nested: tc.nested}))
			got, ok := ParseName(tc.text, tc.nested)
			require.True(t, ok)
			require.Equal(t, tc.name, got)
			_, ok = ParseName(tc.text, !tc.nested)
			require.False(t, ok)
		})
	}
	_, ok := ParseName("calico-x", false)
	require.False(t, ok)
	require.Panics(t, func() { _ = Name{}.String() })
}

// Every text gives an id of the full length, however small its hash.
func TestIDLength(t *testing.T) {
	shape := regexp.MustCompile(`^azure-npm-[0-9a-z]{20}$`)
	rapid.Check(t, func(t *rapid.T) {
		require.Regexp(t, shape, Namespace(rapid.String().Draw(t, "ns")).ID())
	})
}

// A name that is too long for HNS is cut, and stays unique; those of single labels
// never are.
func TestNamesAreCut(t *testing.T) {
	key := strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63)
	value := strings.Repeat("c", 63)
	longest := PodLabel(key, value)
	require.Len(t, longest.String(), MaxName)
	for _, n := range []Name{longest, NamespaceLabel(key, value), Namespace(value), NamedPortIn("10.0.0.0/8+999-"+strings.Repeat("f", 32), value[:15], "SCTP", 65535)} {
		require.Equal(t, n.String(), n.Called())
	}
	seen := map[string]bool{}
	for _, n := range []Name{
		PodSelector("x", "a notin ("+strings.Repeat("v,", 200)+"w)"), PodSelector("x", "a notin ("+strings.Repeat("v,", 200)+"x)"),
		NestedLabel(key, value, value[1:]), NamespaceSelector(key + "!=" + value), PodSelector("x", strings.Repeat("é", 300)), PodSelector("x", "a"+strings.Repeat("é", 300)),
	} {
		called := n.Called()
		require.LessOrEqual(t, len(called), MaxName)
		require.Greater(t, len(called), MaxName-4)
		require.True(t, utf8.ValidString(called))
		require.Equal(t, strings.TrimPrefix(n.ID(), idPrefix), called[strings.LastIndex(called, cutMark)+1:])
		require.False(t, seen[called])
		seen[called] = true
		require.False(t, nameOf(Observed{ID: n.ID(), Name: called, Nested: n.Nested()}).known(), "it does not tell what it stands for")
		o := Observed{ID: "azure-npm-1", Name: strings.Repeat("x", 2*MaxName)}
		require.Equal(t, o.Name, nameOf(o).Called(), "an orphan keeps what it is called")
	}
}

func TestOrphanNames(t *testing.T) {
	for title, o := range map[string]Observed{
		"id of an older rule": {ID: "azure-npm-1234567", Name: "ns-x"},
		"another type":        {ID: Namespace("x").ID(), Name: "ns-x", Nested: true},
		"unknown prefix":      {ID: "azure-npm-1", Name: "cidr-in-x"},
		"no name":             {ID: "azure-npm-2"},
	} {
		t.Run(title, func(t *testing.T) {
			n := nameOf(o)
			require.False(t, n.known())
			require.Equal(t, o.ID, n.ID())
			require.Equal(t, o.Name, n.String())
			require.Equal(t, o.Nested, n.Nested())
		})
	}
}

func TestCompare(t *testing.T) {
	require.Negative(t, Compare(Namespace("a"), Namespace("b")))
	require.Positive(t, Compare(PodLabelKey("a"), Namespace("b")))
	require.Zero(t, Compare(Namespace("a"), Namespace("a")))
	require.NotZero(t, Compare(nameOf(Observed{ID: "azure-npm-1"}), nameOf(Observed{ID: "azure-npm-2"})))
}
