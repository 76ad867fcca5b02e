package dataplane

import (
	"fmt"
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
func testShare(name string, n int, dirs ...policy.Direction) share {
	s := share{key: policy.Key{Namespace: "x", Name: name}}
	for _, d := range dirs {
		s.isolates[d] = true
	}
	for i := range n {
		a := hns.ACL{ID: state.ACLID(s.key), Protocols: "6", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: hns.PriorityAllow}
		if d := dirs[i%len(dirs)]; d == policy.Egress {
			a.Direction = hns.Out
			a.RemotePorts = fmt.Sprint(1000 + i)
		} else {
			a.LocalPorts = fmt.Sprint(1000 + i)
		}
		s.acls = append(s.acls, a)
	}
	return s
}

// testShared is what the policies of an endpoint share.
func testShared(groups []share, pair bool) []hns.ACL {
	var isolated [2]bool
	for _, g := range groups {
		for _, d := range policy.Directions {
			isolated[d] = isolated[d] || g.isolates[d]
		}
	}
	shared := renderShared(isolated, ipv4Addrs("10.1.0.4"))
	if pair && len(shared) > 0 {
		shared = slices.Concat(missingDefaults(hns.Defaults{}, nil), shared)
	}
	return shared
}

// short renders steps: one line each, rules by the last part of their Id.
func short(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(string(s.verb))
		for _, a := range s.acls {
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
	all := []share{a, b, c}
	want := slices.Concat(testShared(all, true), a.acls, b.acls, c.acls)
	stale := testShare("z", 1, in)

	for _, tc := range []struct {
		name   string
		change change
		want   string
	}{
		{"nothing is wanted and there", change{}, ""},
		{"everything is there", change{applied: want, shared: testShared(all, true), groups: all}, ""},
		{
			"running: the block goes last",
			change{shared: testShared(all, false), groups: all, batch: 3},
			"Add node\nAdd a:1000 a:1001 a:1002\nAdd b:1000 b:1001 c:1000 in out\n",
		},
		{
			"fresh: the block goes first, with the smallest policy for each direction",
			change{shared: testShared(all, false), groups: all, batch: 6, fresh: true},
			"Add node in out b:1000 b:1001 c:1000\nAdd a:1000 a:1001 a:1002\n",
		},
		{
			"four batches at most: what needs more is one Update",
			change{applied: a.acls[:1], shared: testShared(all, false), groups: all, batch: 1},
			"Update node in out a:1000 a:1001 a:1002 b:1000 b:1001 c:1000\n",
		},
		{
			"fresh: it is closed before",
			change{shared: testShared(all, false), groups: all, batch: 1, fresh: true},
			"Add node in out c:1000\nUpdate node in out a:1000 a:1001 a:1002 b:1000 b:1001 c:1000\n",
		},
		{
			"but once only",
			change{applied: testShared(all, false), shared: testShared(all, false), groups: all, batch: 1, fresh: true},
			"Update node in out a:1000 a:1001 a:1002 b:1000 b:1001 c:1000\n",
		},
		{
			"a policy larger than a batch is split",
			change{shared: testShared(all[:1], false), groups: all[:1], batch: 2},
			"Add node\nAdd a:1000 a:1001\nAdd a:1002 in\n",
		},
		{
			"the allow-all pair goes first",
			change{shared: testShared(all, true), groups: all, batch: 5},
			"Add in out node\nAdd a:1000 a:1001 a:1002 b:1000 b:1001\nAdd c:1000 in out\n",
		},
		{
			"only what is missing is added",
			change{applied: slices.Concat(testShared(all, false), a.acls[:2], c.acls), shared: testShared(all, false), groups: all, batch: 9},
			"Add a:1002 b:1000 b:1001\n",
		},
		{
			"something has to go: one Update, whatever its size",
			change{applied: slices.Concat(a.acls, stale.acls), shared: testShared(all, false), groups: all, batch: 2},
			"Update node in out a:1000 a:1001 a:1002 b:1000 b:1001 c:1000\n",
		},
		{
			"a rule that is there twice has to go",
			change{applied: slices.Concat(want, a.acls[:1]), shared: testShared(all, true), groups: all, batch: 30},
			"Update in out node in out a:1000 a:1001 a:1002 b:1000 b:1001 c:1000\n",
		},
		{
			"the last policy goes",
			change{applied: want},
			"Update\n",
		},
		{
			"an unused number may stay",
			change{applied: slices.Concat(want, stale.acls), shared: testShared(all, true), groups: all, unused: stale.acls},
			"",
		},
		{
			"and does not stand in the way of an Add",
			change{applied: slices.Concat(a.acls, stale.acls), groups: all[:2], unused: stale.acls, batch: 30},
			"Add b:1000 b:1001\n",
		},
		{
			"but goes with an Update",
			change{applied: slices.Concat(b.acls, stale.acls), groups: all[:1], unused: stale.acls, batch: 30},
			"Update a:1000 a:1001 a:1002\n",
		},
		{
			"a batch of nothing is a batch of one",
			change{groups: all[1:2]},
			"Add b:1000\nAdd b:1001\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, short(planSteps(tc.change)))
		})
	}
}

// genChange draws policies, what they share, and something that may be applied:
// parts of what is wanted, rules of before, some twice, some unused.
func genChange() *rapid.Generator[change] {
	return rapid.Custom(func(t *rapid.T) change {
		c := change{
			batch: rapid.IntRange(0, 9).Draw(t, "batch"),
			fresh: rapid.Bool().Draw(t, "fresh"),
		}
		for i := range rapid.IntRange(0, 6).Draw(t, "policies") {
			dirs := rapid.SampledFrom([][]policy.Direction{
				{policy.Ingress}, {policy.Egress}, {policy.Ingress, policy.Egress},
			}).Draw(t, "dirs")
			c.groups = append(c.groups, testShare(fmt.Sprint("p", i), rapid.IntRange(0, 12).Draw(t, "rules"), dirs...))
		}
		c.shared = testShared(c.groups, rapid.Bool().Draw(t, "pair"))
		stale := testShare("stale", 3, policy.Egress)
		c.unused = stale.acls[:rapid.IntRange(0, 2).Draw(t, "unused")]

		pool := wantOf(c)
		if rapid.Bool().Draw(t, "leftovers") {
			pool = append(slices.Concat(pool, pool), stale.acls...)
		} else {
			pool = append(pool, c.unused...)
		}
		for _, a := range pool {
			if rapid.IntRange(0, 3).Draw(t, "applied") == 0 {
				c.applied = append(c.applied, a)
			}
		}
		c.applied = rapid.Permutation(c.applied).Draw(t, "order")
		return c
	})
}

func wantOf(c change) []hns.ACL {
	want := slices.Clone(c.shared)
	for _, g := range c.groups {
		want = append(want, g.acls...)
	}
	return want
}

// TestPlanStepsProperties: done in order, the steps give the wanted list, no
// Add repeats anything, policies stay whole, and what must not be late is not.
func TestPlanStepsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genChange().Draw(t, "change")
		before := fmt.Sprintf("%+v", c)
		steps := planSteps(c)
		require.Equal(t, before, fmt.Sprintf("%+v", c), "the change is not written to")
		require.Equal(t, short(steps), short(planSteps(c)))

		want := wantOf(c)
		have := slices.Clone(c.applied)
		for i, s := range steps {
			if s.verb == hns.Update {
				require.Equal(t, len(steps)-1, i)
				_, removed := diffACLs(c.applied, slices.Concat(want, c.unused))
				if added, _ := diffACLs(c.applied, want); len(removed) == 0 { // then two batches after each other have more than one
					require.Greater(t, len(added), maxAdds/2*max(c.batch, 1), "an Update for a few additions")
				}
				have = s.acls
				continue
			}
			require.Zero(t, i/maxAdds, "batch %d", i)
			require.NotEmpty(t, s.acls)
			for _, a := range s.acls {
				require.Zero(t, countACLs(have)[a.Canonical()], "%s is there", RuleText(a))
				have = append(have, a)
			}
		}
		added, removed := diffACLs(have, want)
		require.Empty(t, added)
		if len(steps) > 0 && steps[0].verb == hns.Update {
			require.Empty(t, removed)
		}
		_, essential := diffACLs(removed, c.unused)
		require.Empty(t, essential)
		if len(steps) > 0 && steps[0].verb == hns.Add {
			checkBatches(t, c, steps)
		}
	})
}

// checkBatches checks how additions are cut.
func checkBatches(t *rapid.T, c change, steps []step) {
	size := max(c.batch, 1)
	at := map[hns.ACL]int{} // the step that adds it
	for i, s := range steps {
		rules := 0
		for _, a := range s.acls {
			if _, there := at[a]; there { // in an Update
				continue
			}
			at[a] = i
			if _, ok := state.PolicyOfACL(a.ID); ok {
				rules++
			}
		}
		if s.verb == hns.Update {
			continue
		}
		if i == 0 && c.fresh {
			rules -= size // one policy more, so that both directions have one
		}
		require.LessOrEqual(t, rules, size)
	}
	smallest := map[policy.Direction]int{}
	for _, g := range c.groups {
		missing, _ := diffACLs(c.applied, g.acls)
		for i, a := range missing {
			if len(missing) <= size {
				require.Equal(t, at[missing[0]], at[a], "policy %s is cut", g.key)
			} else if i > 0 {
				require.GreaterOrEqual(t, at[a], at[missing[i-1]])
			}
		}
		for _, d := range policy.Directions {
			if least, ok := smallest[d]; g.isolates[d] && (!ok || len(missing) < least) {
				smallest[d] = len(missing)
			}
		}
	}
	missing, _ := diffACLs(c.applied, c.shared)
	fits := true
	for _, a := range missing {
		if a.Action == hns.Allow {
			require.Zero(t, at[a], "%s is late", a.ID)
			continue
		}
		if !c.fresh {
			require.Equal(t, len(steps)-1, at[a], "the block is early on a running endpoint")
			continue
		}
		require.Zero(t, at[a], "the block is late on a fresh endpoint")
		for _, d := range policy.Directions {
			if direction(d) == a.Direction {
				fits = fits && smallest[d] <= size
			}
		}
	}
	if c.fresh && fits {
		requireOneWhole(t, c, missing, at)
	}
}

// requireOneWhole checks that the first request has one whole policy for every
// direction that it closes.
func requireOneWhole(t *rapid.T, c change, shared []hns.ACL, at map[hns.ACL]int) {
	for _, block := range shared {
		if block.Action != hns.Block {
			continue
		}
		require.True(t, slices.ContainsFunc(c.groups, func(g share) bool {
			missing, _ := diffACLs(c.applied, g.acls)
			isolates := g.isolates[policy.Ingress] && block.Direction == hns.In || g.isolates[policy.Egress] && block.Direction == hns.Out
			return isolates && !slices.ContainsFunc(missing, func(a hns.ACL) bool { return at[a] > 0 })
		}), "%s without a whole policy:\n%s", block.ID, short(planSteps(c)))
	}
}

func TestDiffACLs(t *testing.T) {
	a, b := hns.ACL{ID: "a"}, hns.ACL{ID: "b"}
	spelled := hns.ACL{ID: "a", Protocols: hns.AnyProtocol}
	added, removed := diffACLs([]hns.ACL{spelled, b, b}, []hns.ACL{a, a, b})
	require.Empty(t, cmp.Diff([]hns.ACL{a}, added), "one a is there, under another spelling")
	require.Empty(t, cmp.Diff([]hns.ACL{b}, removed), "one b is too many")
}
