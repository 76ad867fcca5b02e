package dataplane_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
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
					Message: fmt.Sprintf("HNS rejects set podlabel-b:v1 (%s): where the policy needs it, what it accepts is left out and each of its denies blocks everything of its direction, until the set changes, or HNS takes it", strings.TrimSpace(fmt.Sprintf("0x%08x %s", code, hns.LookupCode(code).Name)))}}, w.report.Warnings)

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

// TestSearchYields: HNS rejects hundreds of sets. No transaction makes more than a few
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

// TestTooLarge: HNS rejects requests that are too large, with a code of no known
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

// TestRulesGiveWayInASearch: a pod cannot leave a set, and what comes in place of the
// rule that names it waits for a set in the midst of a search. The rule goes at once,
// so the pod joins the other set that it asks for before the search is over, and is let in at no time.
func TestRulesGiveWayInASearch(t *testing.T) {
	const many = 200
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "policy x/p "+andPolicy,
		"pod x/q 10.0.1.1 a=v1 b=v2 remote", "pod x/r 10.0.1.2 a=v1 b=v1 remote", "apply",
		"trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep in allow")
	q := w.sim.Watch(probe{Endpoint: "ep", Direction: hns.In, Packet: packet("10.0.1.1", "10.0.0.1", 80)})
	require.Equal(t, []hnsfault.Outcome{hnsfault.Denied}, q)
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
	require.Positive(t, w.sim.Writes())
	require.Empty(t, w.sim.Transitions(), "it never passes: %s", w.sim.Dump())
}

// TestUnknownRemovalDelaysNobody: HNS hangs at a removal, and then cannot be read. What
// comes in is written all the same.
func TestUnknownRemovalDelaysNobody(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "pod x/a 10.0.1.1 app=api remote", bGood, "apply", "delete policy x/good")
	w.sim.Inject(hnsfault.Fault{Op: "SetPolicy/Remove", Times: -1})
	require.Error(t, w.apply())
	w.sim.Inject(hnsfault.Fault{Op: "Network/Get", Times: -1})
	require.True(t, w.report.Converged())
	w.do(bLater, "apply", "calls ACL/Add=1", "trace 10.0.1.1 -> 10.0.0.1 TCP/443 ep in allow")
	var reads []time.Duration
	for start := w.now; w.now.Sub(start) < time.Hour; w.now = w.now.Add(max(w.report.Next(), time.Second)) {
		_ = w.apply()
		if w.report.Calls["Network/Get"] > 0 {
			reads = append(reads, w.now.Sub(start))
		}
	}
	require.Less(t, len(reads), 130, "every 30 s in the end")
	require.Greater(t, len(reads), 100)
	w.do(bGood) // now it has to be read
	require.Error(t, w.apply())
	require.False(t, w.report.Converged())
}

// TestManyRemovalsFail: they are found in steps, as sets that are refused are.
func TestManyRemovalsFail(t *testing.T) {
	w := newWorld(t)
	w.sim.OnCall(nil)
	const sets = 200
	for i := range sets {
		w.do(fmt.Sprintf("put-set podlabel-k:v%d IPSET 10.9.9.9", i))
		w.refuse(fmt.Sprintf("podlabel-k:v%d", i), hns.ErrInvalid, 0x803B000D, hns.Remove)
	}
	w.do("put-set podlabel-fine IPSET 10.9.9.9", "endpoint ep 10.0.0.1", "namespace x", "pod x/w 10.0.0.1")
	rounds := 0
	for ; rounds < 20; rounds++ {
		_ = w.apply()
		require.LessOrEqual(t, w.report.Calls["SetPolicy/Remove"], 65)
		require.True(t, w.report.Converged())
		if w.report.Next() > time.Millisecond {
			break
		}
	}
	require.Less(t, rounds, 10)
	require.Len(t, w.sim.Sets(), sets)
	require.Len(t, w.report.Warnings, sets)
}

// choosy is an HNS that has something against a request for rules as a whole.
type choosy struct {
	*hnsfault.Sim
	refuses func(op string, ours []hns.ACL) bool
}

func (c choosy) answer(op, id string, ours []hns.ACL) error {
	if !c.refuses(op, ours) {
		return nil
	}
	return &hns.OpError{Op: op, Kind: hns.KindEndpoint, ID: id, Code: 0x803B0030, Err: hns.ErrUnlisted}
}

func (c choosy) AddACLs(ctx context.Context, id string, acls []hns.ACL) error {
	if err := c.answer(hns.OpACLAdd, id, acls); err != nil {
		return err
	}
	return c.Sim.AddACLs(ctx, id, acls)
}

func (c choosy) ReplacePolicies(ctx context.Context, id string, policies []hns.EndpointPolicy) error {
	ours, _ := hns.Endpoint{Policies: policies}.Split()
	if err := c.answer(hns.OpACLUpdate, id, ours); err != nil {
		return err
	}
	return c.Sim.ReplacePolicies(ctx, id, policies)
}

// TestWhateverClosesIt: HNS takes the block for ingress, but not beside what else is
// to be there. The pod is closed all the same, in the first transaction, and HNS is
// not asked for the rest for ever at the pace of a pod that is open.
func TestWhateverClosesIt(t *testing.T) {
	closes := func(dir hns.DirectionType) func(hns.ACL) bool {
		return func(a hns.ACL) bool { return a.Action == hns.Block && a.Direction == dir }
	}
	for name, refuses := range map[string]func(op string, ours []hns.ACL) bool{
		"two rules in one Add": func(op string, ours []hns.ACL) bool { return op == hns.OpACLAdd && len(ours) > 1 },
		"any Add":              func(op string, _ []hns.ACL) bool { return op == hns.OpACLAdd },
		"the block for egress": func(_ string, ours []hns.ACL) bool { return slices.ContainsFunc(ours, closes(hns.Out)) },
		"rules that allow all": func(_ string, ours []hns.ACL) bool {
			return slices.ContainsFunc(ours, func(a hns.ACL) bool { return a.Priority == hns.PriorityDefault })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.start(func(cfg *dataplane.Config) { cfg.Client = choosy{w.sim, refuses} })
			w.do("namespace x", "node 10.1.0.4", "endpoint ep 10.0.0.4 bare", "pod x/web 10.0.0.4", `policy x/p {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{ports: [{port: 443}]}]}`)
			for end := w.now.Add(time.Hour); w.now.Before(end); w.now = w.now.Add(max(w.report.Next(), time.Millisecond)) {
				w.transact()
				w.do(stranger + "block")
				if w.report.Next() == 0 {
					break
				}
			}
			require.NotEmpty(t, w.report.Warnings)
			require.Contains(t, w.report.Warnings[0].Message, "0x803b0030")
			require.Less(t, w.total[hns.OpACLAdd]+w.total[hns.OpACLUpdate], 200, "in an hour")
		})
	}
}

// secretive is an HNS that takes rules of ours and never shows one.
type secretive struct{ *hnsfault.Sim }

func (b secretive) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	e, err := b.Sim.GetEndpoint(ctx, id)
	_, e.Policies = e.Split()
	return e, err
}

// TestRulesThatAreNotShown: they do not pile up, writes are those of a dispute, and what
// is taken away goes.
func TestRulesThatAreNotShown(t *testing.T) {
	w := newbornWorld(t, func(cfg *dataplane.Config) { cfg.Client = secretive{cfg.Client.(*hnsfault.Sim)} })
	w.during(time.Hour, func() {})
	w.do("trace 10.0.1.5 -> 10.0.0.4 TCP/80 ep in allow", stranger+"block", "delete policy x/p")
	tries := 0
	w.during(time.Hour, func() { tries += w.writes() })
	require.Less(t, tries, 20)
	require.Less(t, len(w.policiesOf("ep")), 20)
	w.do("trace 10.0.1.5 -> 10.0.0.4 TCP/80 ep in block", "trace 10.9.9.9 -> 10.0.0.4 TCP/443 ep in allow")
}

// newbornQ is the second policy of newbornWorld.
const newbornQ = `policy x/q {podSelector: {}, ingress: [{ports: [{port: 443}]}]}`

// newbornWorld has a pod whose endpoint was never written, and what a policy on it
// needs.
func newbornWorld(t *testing.T, change ...func(*dataplane.Config)) *world {
	t.Helper()
	w := newWorld(t, change...)
	w.do("namespace x", "node 10.1.0.4", "endpoint ep 10.0.0.4", "pod x/web 10.0.0.4 app=web",
		"pod x/api 10.0.1.5 app=api remote", "policy x/p "+webFromAPI, newbornQ)
	return w
}

// stranger is a packet that the policies of newbornWorld allow nobody.
const stranger = "trace 10.9.9.9 -> 10.0.0.4 TCP/80 ep in "

const (
	bGood  = `policy x/good {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 80}]}]}`
	bLater = `policy x/later {podSelector: {}, ingress: [{ports: [{port: 443}]}]}`
)

// TestScenario_B1_BacksOff: an endpoint whose writes never get through is tried
// after 1, 2, 4 … 30 s, or a little sooner, and stops nobody.
func TestScenario_B1_BacksOff(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep-1 10.0.0.1", "endpoint ep-2 10.0.0.2",
		"pod x/odd 10.0.0.1 app=odd", "pod x/web 10.0.0.2 app=web", "apply", bGood)
	for _, op := range []string{"ACL/Add", "ACL/Update"} {
		for range 7 {
			w.do("fault " + op + " ep-1 refuse")
		}
	}
	var waits []time.Duration
	for range 7 {
		_ = w.apply()
		waits = append(waits, w.report.RetryAfter)
		w.now = w.now.Add(w.report.RetryAfter)
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		require.LessOrEqual(t, waits[i], want*time.Second)
		require.GreaterOrEqual(t, waits[i], want*time.Second*4/5)
	}
	w.do("trace 10.0.0.9 -> 10.0.0.2 TCP/80 ep-2 in block", bLater, "apply",
		"trace 10.0.0.9 -> 10.0.0.2 TCP/443 ep-2 in allow")
	require.True(t, w.report.Converged())
}

// objects returns the objects of a report's warnings.
func objects(r state.Report) []string {
	var out []string
	for _, w := range r.Warnings {
		out = append(out, w.Object)
	}
	return out
}

// TestRejectedSetKeepsTheBackoff: pods that join a set that HNS rejects do not end the pause of an
// endpoint whose writes fail, although its rules name the set.
func TestRejectedSetKeepsTheBackoff(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web", "pod x/api 10.0.1.1 app=api remote", "pod x/c 10.0.1.2 app=c remote",
		"policy x/q {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 443}]}]}",
		"reject set podlabel-app:api 10.0.1.1")
	_ = w.apply()
	for _, op := range []string{"ACL/Add", "ACL/Update"} {
		w.sim.Inject(hnsfault.Fault{Op: op, Target: "ep", Mode: hnsfault.Refuse, Times: 1000})
	}
	w.do("policy x/z {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: c}}}], ports: [{port: 99}]}]}")
	_ = w.apply()
	writes := 0
	for i := range 30 { // in 6 s
		w.now = w.now.Add(200 * time.Millisecond)
		w.do(fmt.Sprintf("pod x/n%d 10.0.2.%d app=api remote", i, i+1))
		_ = w.apply()
		writes += w.report.Calls["ACL/Add"] + w.report.Calls["ACL/Update"]
	}
	require.LessOrEqual(t, writes, 4, "pauses of 1, 2 and 4 s")
}
