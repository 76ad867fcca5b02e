package acl

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// testShare is a policy with n rules of a direction.
func testShare(name string, n int, dirs ...policy.Direction) Share {
	s := Share{Key: policy.Key{Namespace: "x", Name: name}}
	for _, d := range dirs {
		s.Isolates[d] = true
	}
	for i := range n {
		a := hns.ACL{ID: state.ACLID(s.Key), Protocols: "6", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: hns.PriorityAllow}
		if d := dirs[i%len(dirs)]; d == policy.Egress {
			a.Direction = hns.Out
			a.RemotePorts = fmt.Sprint(1000 + i)
		} else {
			a.LocalPorts = fmt.Sprint(1000 + i)
		}
		s.ACLs = append(s.ACLs, a)
	}
	return s
}

// testShared is what the policies of an endpoint share.
func testShared(groups []Share, pair bool) []hns.ACL {
	var isolated [2]bool
	for _, g := range groups {
		for _, d := range policy.Directions {
			isolated[d] = isolated[d] || g.Isolates[d]
		}
	}
	shared := Shared(isolated, []netip.Addr{netip.MustParseAddr("10.1.0.4")})
	if pair && len(shared) > 0 {
		shared = slices.Concat(MissingDefaults(hns.Defaults{}, nil), shared)
	}
	return shared
}

// short renders steps: one line each, rules by the last part of their Id.
func short(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(string(s.Verb))
		for _, a := range s.ACLs {
			fmt.Fprintf(&b, " %s", a.ID[strings.LastIndexAny(a.ID, "-.")+1:])
			if a.LocalPorts+a.RemotePorts != "" {
				fmt.Fprintf(&b, ":%s", a.LocalPorts+a.RemotePorts)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestPlanSteps(t *testing.T) {
	in, out := policy.Ingress, policy.Egress
	a, b, c := testShare("a", 3, in), testShare("b", 2, in), testShare("c", 1, out)
	all := []Share{a, b, c}
	want := slices.Concat(testShared(all, true), a.ACLs, b.ACLs, c.ACLs)
	stale := testShare("z", 1, in)

	for _, tc := range []struct {
		name    string
		Change  Change
		Desired string
	}{
		{"nothing is wanted and there", Change{}, ""},
		{"everything is there", Change{Applied: want, Shared: testShared(all, true), Groups: all}, ""},
		{
			"running: the block goes last",
			Change{Shared: testShared(all, false), Groups: all, Batch: 3},
			"Add node\nAdd a:1000 a:1001 a:1002\nAdd b:1000 b:1001 c:1000 in out\n",
		},
		{
			"fresh: the block goes first, with the smallest policy for each direction",
			Change{Shared: testShared(all, false), Groups: all, Batch: 6, Fresh: true},
			"Add node in out b:1000 b:1001 c:1000\nAdd a:1000 a:1001 a:1002\n",
		},
		{
			"four batches at most: what needs more is one Update",
			Change{Applied: a.ACLs[:1], Shared: testShared(all, false), Groups: all, Batch: 1},
			"Update node in out a:1000 a:1001 a:1002 b:1000 b:1001 c:1000\n",
		},
		{
			"fresh: it is closed before",
			Change{Shared: testShared(all, false), Groups: all, Batch: 1, Fresh: true},
			"Add node in out c:1000\nUpdate node in out a:1000 a:1001 a:1002 b:1000 b:1001 c:1000\n",
		},
		{
			"but once only",
			Change{Applied: testShared(all, false), Shared: testShared(all, false), Groups: all, Batch: 1, Fresh: true},
			"Update node in out a:1000 a:1001 a:1002 b:1000 b:1001 c:1000\n",
		},
		{
			"a policy larger than a batch is split",
			Change{Shared: testShared(all[:1], false), Groups: all[:1], Batch: 2},
			"Add node\nAdd a:1000 a:1001\nAdd a:1002 in\n",
		},
		{
			"the allow-all pair goes first",
			Change{Shared: testShared(all, true), Groups: all, Batch: 5},
			"Add in out node\nAdd a:1000 a:1001 a:1002 b:1000 b:1001\nAdd c:1000 in out\n",
		},
		{
			"only what is missing is added",
			Change{Applied: slices.Concat(testShared(all, false), a.ACLs[:2], c.ACLs), Shared: testShared(all, false), Groups: all, Batch: 9},
			"Add a:1002 b:1000 b:1001\n",
		},
		{
			"something has to go: one Update, whatever its size",
			Change{Applied: slices.Concat(a.ACLs, stale.ACLs), Shared: testShared(all, false), Groups: all, Batch: 2},
			"Update node in out a:1000 a:1001 a:1002 b:1000 b:1001 c:1000\n",
		},
		{
			"a rule that is there twice has to go",
			Change{Applied: slices.Concat(want, a.ACLs[:1]), Shared: testShared(all, true), Groups: all, Batch: 30},
			"Update in out node in out a:1000 a:1001 a:1002 b:1000 b:1001 c:1000\n",
		},
		{
			"the last policy goes",
			Change{Applied: want},
			"Update\n",
		},
		{
			"an unused number may stay",
			Change{Applied: slices.Concat(want, stale.ACLs), Shared: testShared(all, true), Groups: all, Unused: stale.ACLs},
			"",
		},
		{
			"and does not stand in the way of an Add",
			Change{Applied: slices.Concat(a.ACLs, stale.ACLs), Groups: all[:2], Unused: stale.ACLs, Batch: 30},
			"Add b:1000 b:1001\n",
		},
		{
			"but goes with an Update",
			Change{Applied: slices.Concat(b.ACLs, stale.ACLs), Groups: all[:1], Unused: stale.ACLs, Batch: 30},
			"Update a:1000 a:1001 a:1002\n",
		},
		{
			"a batch of nothing is a batch of one",
			Change{Groups: all[1:2]},
			"Add b:1000\nAdd b:1001\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.Desired, short(Plan(tc.Change)))
		})
	}
}

// genChange draws policies, what they share, and something that may be applied:
// parts of what is wanted, rules of before, some twice, some unused.
func genChange() *rapid.Generator[Change] {
	return rapid.Custom(func(t *rapid.T) Change {
		c := Change{
			Batch: rapid.IntRange(0, 9).Draw(t, "batch"),
			Fresh: rapid.Bool().Draw(t, "fresh"),
		}
		for i := range rapid.IntRange(0, 6).Draw(t, "policies") {
			dirs := rapid.SampledFrom([][]policy.Direction{
				{policy.Ingress}, {policy.Egress}, {policy.Ingress, policy.Egress},
			}).Draw(t, "dirs")
			c.Groups = append(c.Groups, testShare(fmt.Sprint("p", i), rapid.IntRange(0, 12).Draw(t, "rules"), dirs...))
		}
		c.Shared = testShared(c.Groups, rapid.Bool().Draw(t, "pair"))
		stale := testShare("stale", 3, policy.Egress)
		c.Unused = stale.ACLs[:rapid.IntRange(0, 2).Draw(t, "unused")]

		pool := wantOf(c)
		if rapid.Bool().Draw(t, "leftovers") {
			pool = append(slices.Concat(pool, pool), stale.ACLs...)
		} else {
			pool = append(pool, c.Unused...)
		}
		for _, a := range pool {
			if rapid.IntRange(0, 3).Draw(t, "applied") == 0 {
				c.Applied = append(c.Applied, a)
			}
		}
		c.Applied = rapid.Permutation(c.Applied).Draw(t, "order")
		return c
	})
}

func wantOf(c Change) []hns.ACL {
	want := slices.Clone(c.Shared)
	for _, g := range c.Groups {
		want = append(want, g.ACLs...)
	}
	return want
}

// TestPlanStepsProperties: done in order, the steps give the wanted list, no
// Add repeats anything, policies stay whole, and what must not be late is not.
func TestPlanStepsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genChange().Draw(t, "change")
		before := fmt.Sprintf("%+v", c)
		steps := Plan(c)
		require.Equal(t, before, fmt.Sprintf("%+v", c), "the change is not written to")
		require.Equal(t, short(steps), short(Plan(c)))

		want := wantOf(c)
		have := slices.Clone(c.Applied)
		for i, s := range steps {
			if s.Verb == hns.Update {
				require.Equal(t, len(steps)-1, i)
				_, removed := Diff(c.Applied, slices.Concat(want, c.Unused))
				if added, _ := Diff(c.Applied, want); len(removed) == 0 { // then two batches after each other have more than one
					require.Greater(t, len(added), MaxAdds/2*max(c.Batch, 1), "an Update for a few additions")
				}
				have = s.ACLs
				continue
			}
			require.Zero(t, i/MaxAdds, "batch %d", i)
			require.NotEmpty(t, s.ACLs)
			for _, a := range s.ACLs {
				require.Zero(t, Count(have)[a.Canonical()], "%s is there", RuleText(a))
				have = append(have, a)
			}
		}
		added, removed := Diff(have, want)
		require.Empty(t, added)
		if len(steps) > 0 && steps[0].Verb == hns.Update {
			require.Empty(t, removed)
		}
		_, essential := Diff(removed, c.Unused)
		require.Empty(t, essential)
		if len(steps) > 0 && steps[0].Verb == hns.Add {
			checkBatches(t, c, steps)
		}
	})
}

// checkBatches checks how additions are cut.
func checkBatches(t *rapid.T, c Change, steps []Step) {
	size := max(c.Batch, 1)
	at := map[hns.ACL]int{} // the step that adds it
	for i, s := range steps {
		rules := 0
		for _, a := range s.ACLs {
			if _, there := at[a]; there { // in an Update
				continue
			}
			at[a] = i
			if _, ok := state.PolicyOfACL(a.ID); ok {
				rules++
			}
		}
		if s.Verb == hns.Update {
			continue
		}
		if i == 0 && c.Fresh {
			rules -= size // one policy more, so that both directions have one
		}
		require.LessOrEqual(t, rules, size)
	}
	smallest := map[policy.Direction]int{}
	for _, g := range c.Groups {
		missing, _ := Diff(c.Applied, g.ACLs)
		for i, a := range missing {
			if len(missing) <= size {
				require.Equal(t, at[missing[0]], at[a], "policy %s is cut", g.Key)
			} else if i > 0 {
				require.GreaterOrEqual(t, at[a], at[missing[i-1]])
			}
		}
		for _, d := range policy.Directions {
			if least, ok := smallest[d]; g.Isolates[d] && (!ok || len(missing) < least) {
				smallest[d] = len(missing)
			}
		}
	}
	missing, _ := Diff(c.Applied, c.Shared)
	fits := true
	for _, a := range missing {
		if a.Action == hns.Allow {
			require.Zero(t, at[a], "%s is late", a.ID)
			continue
		}
		if !c.Fresh {
			require.Equal(t, len(steps)-1, at[a], "the block is early on a running endpoint")
			continue
		}
		require.Zero(t, at[a], "the block is late on a fresh endpoint")
		for _, d := range policy.Directions {
			if DirectionOf(d) == a.Direction {
				fits = fits && smallest[d] <= size
			}
		}
	}
	if c.Fresh && fits {
		requireOneWhole(t, c, missing, at)
	}
}

// requireOneWhole checks that the first request has one whole policy for every
// direction that it closes.
func requireOneWhole(t *rapid.T, c Change, shared []hns.ACL, at map[hns.ACL]int) {
	for _, block := range shared {
		if block.Action != hns.Block {
			continue
		}
		require.True(t, slices.ContainsFunc(c.Groups, func(g Share) bool {
			missing, _ := Diff(c.Applied, g.ACLs)
			isolates := g.Isolates[policy.Ingress] && block.Direction == hns.In || g.Isolates[policy.Egress] && block.Direction == hns.Out
			return isolates && !slices.ContainsFunc(missing, func(a hns.ACL) bool { return at[a] > 0 })
		}), "%s without a whole policy:\n%s", block.ID, short(Plan(c)))
	}
}

func TestDiffACLs(t *testing.T) {
	a, b := hns.ACL{ID: "a"}, hns.ACL{ID: "b"}
	spelled := hns.ACL{ID: "a", Protocols: hns.AnyProtocol}
	added, removed := Diff([]hns.ACL{spelled, b, b}, []hns.ACL{a, a, b})
	require.Empty(t, cmp.Diff([]hns.ACL{a}, added), "one a is there, under another spelling")
	require.Empty(t, cmp.Diff([]hns.ACL{b}, removed), "one b is too many")
}
