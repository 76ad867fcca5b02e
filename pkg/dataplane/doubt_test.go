package dataplane_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// denyTeamA closes every pod to the namespaces of team a.
const denyTeamA = `cluster deny {tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: a}}}]}]}`

const (
	doubtSet   = "deny-doubt-all"
	doubtAddrs = "deny-doubtaddresses-all"
	fromQ      = "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in "
)

// has returns the members of a set in HNS, by name, without the permanent one; nil when
// there is no such set.
func (w *world) has(set string) []string {
	names := map[string]string{}
	for _, p := range w.sim.Sets() {
		names[p.ID] = p.Name
	}
	p, there := setsByName(w.sim)[set]
	if !there {
		return nil
	}
	out := []string{}
	for _, v := range p.Values {
		if name, nested := names[v]; nested {
			v = name
		}
		if v != "empty-emptyhashset" {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// doubts are ways in which nobody knows to which sets 10.0.1.1 belongs, and how that ends.
var doubts = map[string]struct {
	before       []string // what comes first and is applied
	unsure, sure []string
	addrs        []string // in doubt as such
	leaves       []string // of namespaces in doubt
	writes       string   // what the end of the doubt costs
}{
	"a namespace without an object": {
		unsure: []string{"pod a/q 10.0.1.1 remote"},
		sure:   []string{"namespace a team=a"},
		leaves: []string{"deny-ns-a"}, writes: "SetPolicy/Update=1",
	},
	"a namespace whose object went": {
		before: []string{"namespace a team=a", "pod a/q 10.0.1.1 remote", "apply"},
		unsure: []string{"pod a/q 10.0.1.1 remote", "delete namespace a"},
		sure:   []string{"namespace a team=a"},
		leaves: []string{"deny-ns-a"}, writes: "SetPolicy/Update=1",
	},
	"a namespace over its budget": {
		unsure: []string{"over-budget namespace a", "pod a/q 10.0.1.1 remote"},
		sure:   []string{"namespace a team=a"},
		leaves: []string{"deny-ns-a"}, writes: "SetPolicy/Update=1",
	},
	"a pod over its budget": {
		unsure: []string{"namespace a team=a", "over-budget pod a/q 10.0.1.1 remote"},
		sure:   []string{"pod a/q 10.0.1.1 remote"},
		addrs:  []string{"10.0.1.1"}, writes: "SetPolicy/Update=1",
	},
	"pods of two namespaces": {
		unsure: []string{"namespace a team=a", "pod a/q 10.0.1.1 remote", "pod b/q 10.0.1.1 remote"},
		sure:   []string{"delete pod b/q"},
		addrs:  []string{"10.0.1.1"}, writes: "SetPolicy/Update=1",
	},
}

// TestDoubt: an address that may belong to a set that a rule denies is denied, from
// before it is known to which sets it belongs until after, and all that changes is one
// request. Whose address is known is not concerned.
func TestDoubt(t *testing.T) {
	for title, tc := range doubts {
		for how, late := range map[string]bool{"policy first": false, "policy last": true} {
			t.Run(title+"/"+how, func(t *testing.T) {
				w := newWorld(t)
				w.do("namespace x", "namespace b team=b", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "pod b/r 10.0.1.2 remote", "apply")
				require.Nil(t, w.has(doubtSet), "nobody names it")
				if !late {
					w.do(denyTeamA, "apply")
					require.Equal(t, []string{doubtAddrs}, w.has(doubtSet))
				}
				w.do(tc.before...)
				w.do(tc.unsure...)
				w.do("apply")
				if late {
					w.do(denyTeamA, "apply")
				}
				want := append([]string{doubtAddrs}, tc.leaves...)
				require.ElementsMatch(t, want, w.has(doubtSet))
				require.ElementsMatch(t, tc.addrs, w.has(doubtAddrs))
				w.do(fromQ+"block", "trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep in allow")

				now := verdicts(t, w.sim, probes(w.sim, []string{"10.0.1.1", "10.0.1.2"}, 80))
				stop := watchI4(t, w.sim, now)
				w.do(tc.sure...)
				w.do("apply", "calls "+tc.writes)
				require.Equal(t, 1, stop())
				require.Equal(t, []string{doubtAddrs}, w.has(doubtSet))
				require.Empty(t, w.has(doubtAddrs))
				require.Equal(t, []string{"deny-ns-a"}, w.has("deny-nslabel-team:a"))
				require.Equal(t, []string{"10.0.1.1"}, w.has("deny-ns-a"))
				w.do(fromQ+"block", "delete cluster deny", "apply")
				w.settle()
				require.Nil(t, w.has(doubtSet), "nobody names it any more")
				require.Nil(t, w.has(doubtAddrs))
			})
		}
	}
}

// TestDoubtAfterRestart: a new process finds Doubt as it left it and writes nothing; when
// the policy went meanwhile, what the rules in HNS still name moves on until they go.
func TestDoubtAfterRestart(t *testing.T) {
	for title, tc := range doubts {
		t.Run(title, func(t *testing.T) {
			w := newWorld(t)
			tell := func() {
				w.do("namespace x", "namespace b team=b", "pod x/w 10.0.0.1", "pod b/r 10.0.1.2 remote")
			}
			w.do("endpoint ep 10.0.0.1", denyTeamA)
			tell()
			w.do(tc.before...)
			w.do(tc.unsure...)
			w.do("apply")
			before := w.sim.Dump()

			w.do("restart", denyTeamA)
			tell()
			w.do(tc.unsure...)
			w.do("apply", "calls")
			require.Empty(t, cmp.Diff(before, w.sim.Dump()))

			w.do("restart")
			tell()
			w.do(tc.unsure...)
			w.do("fault ACL/Update * refuse", "! apply")
			require.Empty(t, cmp.Diff(before, w.sim.Dump()))
			w.do(tc.sure...)
			w.do("apply", fromQ+"block")
			require.Equal(t, []string{doubtAddrs}, w.has(doubtSet), "as if the policy still named it")
			require.Empty(t, w.has(doubtAddrs))
			w.settle()
			require.Nil(t, w.has(doubtSet))
			w.do(fromQ + "allow")
		})
	}
}
