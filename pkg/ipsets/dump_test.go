package ipsets

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const goldenDump = `set empty-emptyhashset
  state present
  held by list nestedlabel-app:a:b
nest nestedlabel-app:a:b
  state present dirty
  held by rule ep-1
  member podlabel-app:a
  member podlabel-app:b
set ns-x
  id azure-npm-7
  state present
  member 10.0.0.2
  member 10.0.0.10
set ns-y
  state absent unknown dirty
  held by selector x/web
  held by pin ep-1
set ns-z
  state absent
  held by selector x/web
set "odd\nname "
  id azure-npm-8
  state present
set podlabel-app:a
  state present
  held by list nestedlabel-app:a:b
  member 10.0.0.1
set podlabel-app:b
  state absent rejected dirty
  held by list nestedlabel-app:a:b
  member 10.0.0.2
`

// sample is a cache with a set in every state.
func sample(t *testing.T) *Cache {
	w := newWorld(t)
	w.nest(nested, rule, nil)
	w.AddMember(nested, leafA)
	w.AddAddr(leafA, addr1)
	w.hns.sets["azure-npm-7"] = hnsSet{name: "ns-x", values: []string{"10.0.0.10", "10.0.0.2"}}
	w.hns.sets["azure-npm-8"] = hnsSet{name: "odd\nname "}
	w.Observe(w.hns.list(), nil)
	w.apply()
	w.AddMember(nested, leafB)
	w.Hold(nsY, selector)
	w.Hold(nsY, pin)
	w.Unknown(nsY)
	w.Hold(Namespace("z"), selector)
	w.AddAddr(leafB, addr2)
	w.Reject(leafB)
	w.RemoveMember(nested, leafA)
	w.AddMember(nested, leafA)
	w.AddAddr(leafA, addr1)
	w.alienate(nested)
	return w.Cache
}

// alienate makes HNS have something in a set that is never ours.
func (w *world) alienate(n Name) {
	list := w.hns.list()
	for i := range list {
		if list[i].ID == n.ID() {
			list[i].Values = append(list[i].Values, "azure-npm-unseen")
		}
	}
	w.Observe(list, func(other Name) bool { return other != n })
}

func TestDump(t *testing.T) {
	c := sample(t)
	require.Equal(t, goldenDump, c.Dump())
	states, err := ParseDump(goldenDump)
	require.NoError(t, err)
	require.Empty(t, gocmp.Diff(c.Snapshot(), states))
	require.Empty(t, NewCache().Dump())
	states, err = ParseDump("")
	require.NoError(t, err)
	require.Empty(t, gocmp.Diff(NewCache().Snapshot(), states))
}

func TestSnapshotIsACopy(t *testing.T) {
	c := sample(t)
	for _, s := range c.Snapshot() {
		for i := range s.Members {
			s.Members[i] = "spoilt"
		}
		for i := range s.Refs {
			s.Refs[i] = Ref{}
		}
	}
	require.Equal(t, goldenDump, c.Dump())
}

func TestParseDumpRefuses(t *testing.T) {
	for title, tc := range map[string]struct{ text, want string }{
		"a member of nothing": {"  member 10.0.0.1\n", `set dump line 1: "  member 10.0.0.1" before the first set`},
		"an unknown line":     {"set a\n  state absent\n  size 3\n", `set dump line 3: unknown line "  size 3"`},
		"an unknown holder":   {"set a\n  state absent\n  held by me x\n", `set dump line 3: no kind of reference: "me"`},
		"no state":            {"set a\n", "set dump line 2: not as a dump writes it"},
		"an unknown state":    {"set a\n  state asleep\n", "set dump line 2: not as a dump writes it"},
		"another order":       {"set a\n  state absent\n  member b\n  held by rule x\n", "set dump line 3: not as a dump writes it"},
		"a needless id":       {"set ns-x\n  id azure-npm-5ceop0zrwrj56cyuiub5\n  state absent\n", "set dump line 2: not as a dump writes it"},
		"a needless quote":    {"set \"a\"\n  state absent\n", "set dump line 1: not as a dump writes it"},
		"a broken quote":      {"set \"a\n  state absent\n", "set dump line 1: invalid syntax"},
		"a cut last line":     {"set a\n  state absent", "set dump line 2: not as a dump writes it"},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := ParseDump(tc.text)
			var at *DumpError
			require.ErrorAs(t, err, &at)
			require.EqualError(t, err, tc.want)
		})
	}
}

// Whatever HNS and callers say comes back from the text.
func TestDumpRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := rapid.SliceOf(rapid.Custom(func(t *rapid.T) SetState {
			text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ "\\]?[a-z \n\t"]*[ "\\]?`))
			return SetState{
				ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Nested: rapid.Bool().Draw(t, "nested"),
				Members: notEmpty(rapid.SliceOf(text).Draw(t, "members")),
				Refs: notEmpty(rapid.SliceOf(rapid.Custom(func(t *rapid.T) Ref {
					return Ref{RefKind(rapid.IntRange(int(RefSelector), int(RefPin)).Draw(t, "kind")), text.Draw(t, "owner")}
				})).Draw(t, "refs")),
				InHNS: rapid.Bool().Draw(t, "there"), Known: rapid.Bool().Draw(t, "known"),
				Rejected: rapid.Bool().Draw(t, "rejected"), Dirty: rapid.Bool().Draw(t, "dirty"), Fed: rapid.Bool().Draw(t, "fed"),
			}
		})).Draw(t, "states")
		again, err := ParseDump(format(states))
		require.NoError(t, err)
		if len(states) == 0 {
			states = []SetState{}
		}
		require.Empty(t, gocmp.Diff(states, again))
	})
}

// notEmpty makes an empty slice nil, as snapshots have it.
func notEmpty[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

// Every text is either refused or written back as it was.
func FuzzParseDump(f *testing.F) {
	f.Add(goldenDump)
	f.Add("set \"\\x00\"\n  state absent\n")
	f.Fuzz(func(t *testing.T, text string) {
		if states, err := ParseDump(text); err == nil {
			require.Equal(t, text, format(states))
		}
	})
}
