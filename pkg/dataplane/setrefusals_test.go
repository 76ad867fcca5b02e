package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// refuse makes HNS refuse every request with a set, with this answer.
func (w *world) refuse(set string, class error, code uint32, verbs ...hns.Verb) {
	for _, verb := range verbs {
		w.sim.Inject(hnsfault.Fault{Op: hns.OpSets(verb), Target: set, Times: -1, Err: &hns.OpError{
			Op: hns.OpSets(verb), Kind: hns.KindSet, ID: set, Code: code, Err: class,
		}})
	}
}

// oddCodes are codes of HNS, Win32 and COM that a refusal may have.
var oddCodes = []uint32{0x803B0030, 0x803B002F, 0x803B002D, 0x803B0016, 0x803B0032, 0x803B0033, 0x80070032, 0x8007000D, 0x80004005}

// TestAnyCodeIsARefusal: one set is refused with whatever code. All others are
// written, in the same transaction and later; the warning names the code.
func TestAnyCodeIsARefusal(t *testing.T) {
	for _, class := range []error{hns.ErrInvalid, hns.ErrUnlisted, hns.ErrNotFound, hns.ErrAlreadyExists, hns.ErrInUse} {
		for _, code := range oddCodes {
			t.Run(fmt.Sprintf("%v %08x", class, code), func(t *testing.T) {
				w := newWorld(t)
				w.refuse("podlabel-b:v1", class, code, hns.Add, hns.Update)
				w.do("namespace x team=a", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", `policy x/bad {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {b: v1}}}]}]}`, `policy x/good {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: v1}}}, {namespaceSelector: {matchLabels: {team: a}}}]}]}`,
					"pod x/p 10.0.1.1 a=v1 remote", "pod x/q 10.0.1.2 b=v1 remote")
				require.Error(t, w.apply())
				w.do("trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in allow", "trace 10.9.9.9 -> 10.0.0.1 TCP/80 ep in block")
				require.True(t, w.report.Converged())
				require.Equal(t, []state.Warning{{Object: "x/bad", Kind: "NetworkPolicy", Reason: state.ReasonHNSRejected,
					Message: fmt.Sprintf("HNS refuses set podlabel-b:v1 (%s): where the policy needs it, what it accepts is left out and each of its denies blocks everything of its direction, until the set changes, or HNS takes it", strings.TrimSpace(fmt.Sprintf("0x%08x %s", code, hns.LookupCode(code).Name)))}}, w.report.Warnings)

				w.do("delete pod x/p", "pod x/r 10.0.1.3 a=v1 remote", "apply", "calls SetPolicy/Update=1",
					"trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block", "trace 10.0.1.3 -> 10.0.0.1 TCP/80 ep in allow")
				w.do("pod x/s 10.0.1.4 b=v1 remote") // it changed: it is tried at once
				require.Error(t, w.apply())
				require.True(t, w.report.Converged())
				require.Equal(t, 30*time.Second, w.report.Next())
			})
		}
	}
}

// andPolicy asks for two labels at once.
const andPolicy = `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: v1, b: v1}}}]}]}`

// neverAllowed fails the test when the packet passes after any write from now on.
func (w *world) neverAllowed(src, dst, endpoint string) {
	w.t.Helper()
	now := w.sim.Watch(probe{Endpoint: endpoint, Direction: hns.In, Packet: packet(src, dst, 80)})
	require.Equal(w.t, []hnsfault.Outcome{hnsfault.Denied}, now)
	w.t.Cleanup(func() {
		require.Positive(w.t, w.sim.Writes())
		require.Empty(w.t, w.sim.Transitions(), "%s", w.sim.Dump())
	})
}

// leaver is a world in which a pod leaves one of two sets that a rule asks for, and
// joins the other one: it may be let in at no time.
func leaver(t *testing.T) *world {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "policy x/p "+andPolicy,
		"pod x/q 10.0.1.1 a=v1 b=v2 remote", "pod x/r 10.0.1.2 a=v1 b=v1 remote", "apply",
		"trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep in allow")
	w.neverAllowed("10.0.1.1", "10.0.0.1", "ep")
	return w
}

// TestNoWindow_LeavingIsRefused: HNS refuses the set that a pod leaves, not the one
// that it joins. Other pods join at once; it does when no rule sees that set.
func TestNoWindow_LeavingIsRefused(t *testing.T) {
	for _, class := range []error{hns.ErrInvalid, hns.ErrUnlisted} {
		t.Run(class.Error(), func(t *testing.T) {
			w := leaver(t)
			w.refuse("podlabel-a:v1", class, 0x803B0030, hns.Add, hns.Update)
			w.do("pod x/q 10.0.1.1 a=v2 b=v1 remote", "pod x/s 10.0.1.3 b=v1 remote", "! apply")
			require.Contains(t, w.has("podlabel-b:v1"), "10.0.1.3", "others join")
			require.NotContains(t, w.has("podlabel-b:v1"), "10.0.1.1")
			require.Contains(t, w.has("podlabel-a:v1"), "10.0.1.1")
			require.Equal(t, time.Millisecond, w.report.Next())
			require.False(t, w.report.Converged())
			require.NotZero(t, w.report.Unprogrammed)
			w.do("apply")
			require.Contains(t, w.has("podlabel-b:v1"), "10.0.1.1")
			require.True(t, w.report.Converged())
			require.Equal(t, []string{"x/p"}, objects(w.report))
		})
	}
}

// TestNoWindow_LeavingIsInDoubt: the same, and the outcome of the request that takes
// the pod out is not known.
func TestNoWindow_LeavingIsInDoubt(t *testing.T) {
	for _, mode := range []hnsfault.Mode{hnsfault.Refuse, hnsfault.LoseReply} {
		w := leaver(t)
		w.sim.RejectSet(func(s hns.SetPolicy) bool { // what is to join only
			return s.Name == "podlabel-b:v1" && slices.Contains(s.Values, "10.0.1.3")
		})
		w.sim.Inject(hnsfault.Fault{Op: "SetPolicy/Update", Nth: 2, Mode: mode})
		w.do("pod x/q 10.0.1.1 a=v2 b=v1 remote", "pod x/s 10.0.1.3 b=v1 remote", "! apply", "calls SetPolicy/Update=2", "wait 1s")
		_ = w.apply()
		w.settle()
		require.NotContains(t, w.has("podlabel-a:v1"), "10.0.1.1")
		require.Equal(t, []string{"x/p"}, objects(w.report), "the set is refused")
	}
}

// TestSearchYields: HNS refuses hundreds of sets. No transaction makes more than a few
// requests to find them, endpoints and other sets have their turn meanwhile, and a
// search goes on where it was.
func TestSearchYields(t *testing.T) {
	sets := effort.Of(120, 300)
	var bad strings.Builder
	for i := range sets {
		fmt.Fprintf(&bad, "{from: [{podSelector: {matchLabels: {bad: v%d}}}]},", i)
	}
	for _, class := range []error{hns.ErrInvalid, hns.ErrUnlisted} {
		t.Run(class.Error(), func(t *testing.T) {
			w := newWorld(t)
			w.sim.OnCall(nil)
			w.sim.RejectSet(func(s hns.SetPolicy) bool { return strings.HasPrefix(s.Name, "podlabel-bad:") })
			w.do("namespace x", "endpoint ep-1 10.0.0.1", "endpoint ep-2 10.0.0.2", "endpoint ep-3 10.0.0.3",
				"pod x/v 10.0.0.3 app=web", "policy x/good "+webFromAPI, "apply", "pod x/b 10.0.0.1 app=bad", "policy x/bad {podSelector: {matchLabels: {app: bad}}, ingress: ["+bad.String()+"]}")
			requests, rounds := 0, 0
			for ; rounds < 60; rounds++ {
				_ = w.apply()
				n := writesOfSets(w.report)
				require.LessOrEqual(t, n, 64+3)
				requests += n
				if rounds == 2 {
					w.do("pod x/w 10.0.0.2 app=web", "pod x/a 10.0.1.1 app=api remote")
				}
				if rounds == 3 {
					w.do("trace 10.0.1.1 -> 10.0.0.2 TCP/80 ep-2 in allow", "trace 10.9.9.9 -> 10.0.0.2 TCP/80 ep-2 in block")
				}
				if w.report.Converged() {
					break
				}
				require.Equal(t, time.Millisecond, w.report.Next(), "the rest is due at once")
			}
			require.Less(t, requests, 2*sets+100, "it never starts over")
			require.Len(t, w.report.Warnings, sets)
			w.do("trace 10.9.9.9 -> 10.0.0.1 TCP/80 ep-1 in block")

			w.now = w.now.Add(30 * time.Second) // and so do the probes
			_ = w.apply()
			require.LessOrEqual(t, writesOfSets(w.report), 64)
			w.sim.RejectSet(nil)
			for range 40 {
				_ = w.apply()
				w.now = w.now.Add(time.Millisecond)
			}
			require.Len(t, w.report.Warnings, 64, "which were refused once more")
		})
	}
}

func writesOfSets(report state.Report) int {
	return report.Calls["SetPolicy/Add"] + report.Calls["SetPolicy/Update"]
}

// TestSearchEndsItsTurn: a search asks after each request whether the next
// transaction is due.
func TestSearchEndsItsTurn(t *testing.T) {
	w := newWorld(t)
	w.sim.RejectSet(func(s hns.SetPolicy) bool { return s.Name == "podlabel-b:v1" })
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", `policy x/p {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: v1}}}, {podSelector: {matchLabels: {b: v1}}}, {podSelector: {matchLabels: {c: v1}}}]}]}`)
	w.tx.Yield = func() bool { return true }
	require.Error(t, w.apply())
	require.Equal(t, 2, writesOfSets(w.report), "the request, and one of the search")
	require.Equal(t, time.Millisecond, w.report.Next())
	w.settle()
	require.Equal(t, []string{"x/p"}, objects(w.report))
}

// TestTooLarge: HNS refuses requests that are too large, with a code of no known
// meaning. They are cut, and nothing is left out but a set that is too large alone.
func TestTooLarge(t *testing.T) {
	var rules strings.Builder
	for i := range 40 {
		fmt.Fprintf(&rules, "{from: [{podSelector: {matchLabels: {k: v%d}}}]},", i)
	}
	w := newWorld(t)
	w.sim.OnCall(nil)
	w.sim.RejectSet(func(s hns.SetPolicy) bool { return len(s.Values) > 61 })
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1 app=web", "policy x/p {podSelector: {}, ingress: ["+rules.String()+"]}", "policy x/huge "+webFromAPI)
	for i := range 60 {
		w.do(fmt.Sprintf("pod y/p%d 10.1.0.%d k=v%d remote", i, i+1, i%40), fmt.Sprintf("pod x/h%d 10.2.0.%d app=api remote", i, i+1))
	}
	limit(w.sim, 10)
	_ = w.apply()
	w.settle()
	require.Empty(t, w.report.Warnings)
	w.do("pod x/h60 10.2.0.61 app=api remote")
	_ = w.apply()
	w.settle()
	require.NotEmpty(t, w.report.Warnings)
	for _, warning := range w.report.Warnings {
		require.Contains(t, warning.Message, "ns-x")
	}
}

// limit makes HNS refuse requests of more sets.
func limit(sim *hnsfault.Sim, sets int) {
	sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if when == hnsfault.Before && len(c.Sets) > sets && c.Op != "SetPolicy/Remove" {
			sim.Inject(hnsfault.Fault{Op: c.Op, Err: hns.ErrUnlisted})
		}
	})
}

// TestNoWindow_UnusedRuleOfARefusedSet: HNS refuses the set of a port's number that
// its last pod leaves. The rule that names it is not needed any more and would stay
// until the next Update; the pod is still in the set, so it goes, and the pod's new
// number is open.
func TestNoWindow_UnusedRuleOfARefusedSet(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep-1 10.0.0.1", "endpoint ep-2 10.0.0.2", "pod x/w 10.0.0.1 app=web port=http:80",
		"pod x/v 10.0.0.2 app=api port=http:81", `policy x/out {podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: http}]}]}`, "apply", "trace 10.0.0.1 -> 10.0.0.2 TCP/81 ep-1 out allow")
	w.refuse("namedport:http:TCP:81", hns.ErrUnlisted, 0x80004005, hns.Update)
	w.do("pod x/v 10.0.0.2 app=api uid=v2 port=http:80", "! apply",
		"trace 10.0.0.1 -> 10.0.0.2 TCP/81 ep-1 out block",
		"wait 1s", "apply", "trace 10.0.0.1 -> 10.0.0.2 TCP/80 ep-1 out allow")
}

// TestNoWindow_NamespaceOfWhoCannotLeave: a pod cannot leave a set, and its namespace
// comes to be in another one that the same rule asks for. The namespace waits until no
// rule sees the first set.
func TestNoWindow_NamespaceOfWhoCannotLeave(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x team=a", "namespace y", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", `policy x/p {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {a: v1}}}]}]}`,
		"pod y/q 10.0.1.1 a=v1 remote", "apply")
	w.refuse("podlabel-a:v1", hns.ErrInvalid, 0x803B0030, hns.Add, hns.Update)
	w.neverAllowed("10.0.1.1", "10.0.0.1", "ep")
	w.do("pod y/q 10.0.1.1 a=v2 remote", "namespace y team=a", `policy x/later {podSelector: {}, ingress: [{ports: [{port: 443}], from: [{namespaceSelector: {matchLabels: {team: a}}}]}]}`)
	for range 4 {
		_ = w.apply()
		w.do("wait 1s")
	}
	require.True(t, w.report.Converged())
	w.do("trace 10.0.1.1 -> 10.0.0.1 TCP/443 ep in allow", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block")
}

// TestRulesGiveWayInASearch: a pod cannot leave a set, and what comes in place of the
// rule that names it waits for a set in the midst of a search. The rule goes at once,
// so the pod joins before the search is over.
func TestRulesGiveWayInASearch(t *testing.T) {
	const many = 200
	w := leaver(t)
	w.refuse("podlabel-a:v1", hns.ErrInvalid, 0x803B0030, hns.Add, hns.Update)
	w.sim.RejectSet(func(s hns.SetPolicy) bool { return strings.HasPrefix(s.Name, "podlabel-bad") })
	w.do("pod x/q 10.0.1.1 a=v2 b=v1 remote", "endpoint other 10.0.0.2", "pod x/o 10.0.0.2 none=v1", `policy x/later {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {zz: v1}}}]}]}`)
	for i := range many {
		w.do(fmt.Sprintf("policy x/bad%d {podSelector: {matchLabels: {none: v1}}, ingress: [{from: [{podSelector: {matchLabels: {bad%03d: v1}}}]}]}", i, i))
	}
	for range 3 {
		_ = w.apply()
	}
	require.Contains(t, w.has("podlabel-b:v1"), "10.0.1.1")
	require.Nil(t, w.has("podlabel-zz:v1"), "the search goes on")
}
