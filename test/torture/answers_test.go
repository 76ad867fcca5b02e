package torture

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// What an HNS may answer, one thing at a time. Each of these left a pod open, or
// stopped the node, when codes were looked up in a table.

// oddCodes may stand for a refusal: words that nearly fit, and none.
var oddCodes = []uint32{0x803B0030, 0x803B002F, 0x803B002D, 0x803B0016, 0x803B0032, 0x803B0033, 0x80070032, 0x8007000D, 0x80004005}

// begin returns the history of a scenario's text, played to its start.
func begin(t *testing.T, text string) *life {
	sc, err := parse(t.Name(), text)
	require.NoError(t, err)
	l := newLife(t, sc)
	for _, s := range sc.given {
		l.step(s)
	}
	return l
}

// goOn plays the rest.
func (l *life) goOn() {
	for _, s := range l.sc.steps {
		l.step(s)
	}
}

// passes asks about a packet of TCP at an endpoint.
func (l *life) passes(id string, dir hns.Direction, src, dst string, port uint16) bool {
	v, err := l.sim.Trace(id, dir, hnssim.Packet{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), Protocol: 6, DstPort: port})
	require.NoError(l.t, err)
	return v.Allowed
}

// isRight fails unless the node is as a fresh process makes it.
func (l *life) isRight() {
	if d := l.differs(l.fresh()); d != "" {
		l.fail("%s", d)
	}
}

// failedWrites returns the failed writes since a call.
func (l *life) failedWrites(first int) int {
	return len(slices.DeleteFunc(l.writesSince(first), func(c spoken) bool { return c.Err == nil }))
}

const twoPolicies = `
endpoint ep-1 10.0.0.1
namespace x
pod x/api 10.0.1.1 app=api remote
start
pod x/w 10.0.0.1 app=web
policy x/good {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 80}]}]}
policy x/bad {podSelector: {}, ingress: [{ports: [{port: 1000, endPort: 2000}]}]}
apply`

// TestOneOfTwoPoliciesIsRefused: with whatever code, the pod has its block and the
// other policy in the same transaction, and what is refused is asked for ten times in
// half an hour at most. The warning has the code.
func TestOneOfTwoPoliciesIsRefused(t *testing.T) {
	t.Parallel()
	for _, code := range oddCodes {
		t.Run(fmt.Sprintf("0x%08X", code), func(t *testing.T) {
			t.Parallel()
			l := begin(t, twoPolicies)
			l.become(character{Personality: hnsfault.Personality{Refuse: func(c hnssim.Call) uint32 {
				if slices.ContainsFunc(hnsfault.Rules(c), func(a hns.ACL) bool { return strings.Contains(a.LocalPorts, "-") }) {
					return code
				}
				return 0
			}}})
			l.goOn()
			require.False(t, l.passes("ep-1", hns.In, "10.9.9.9", "10.0.0.1", 80))
			require.True(t, l.passes("ep-1", hns.In, "10.0.1.1", "10.0.0.1", 80))
			first := len(l.calls)
			l.live(30 * time.Minute)
			require.Less(t, l.failedWrites(first), 10)
			require.True(t, slices.ContainsFunc(l.report.Warnings, func(w state.Warning) bool {
				return w.Object == "x/bad" && strings.Contains(w.Message, fmt.Sprintf("0x%08x", code))
			}), "%v", l.report.Warnings)
			l.checkGaps()
		})
	}
}

const oneSet = `
endpoint ep-1 10.0.0.1
endpoint ep-2 10.0.0.2
namespace x
pod x/w 10.0.0.1 app=web
pod x/api 10.0.1.1 app=api remote
policy x/good {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}
start
policy x/odd {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: odd}}}]}]}
pod x/new 10.0.0.2 app=db
pod x/api2 10.0.1.2 app=api remote
delete pod x/api
apply`

// TestOneSetIsRefused: with whatever code, the address of a pod that is gone leaves
// the other sets and a new pod has its rules, in the same transaction.
func TestOneSetIsRefused(t *testing.T) {
	t.Parallel()
	for _, code := range oddCodes {
		t.Run(fmt.Sprintf("0x%08X", code), func(t *testing.T) {
			t.Parallel()
			l := begin(t, oneSet)
			l.become(character{Personality: hnsfault.Personality{Code: func(*hns.OpError) uint32 { return code }}})
			l.sim.RejectSet(func(s hns.SetPolicy) bool { return s.Name == "podlabel-app:odd" })
			l.goOn()
			for id, addr := range map[string]string{"ep-1": "10.0.0.1", "ep-2": "10.0.0.2"} {
				require.False(t, l.passes(id, hns.In, "10.0.1.1", addr, 80), id)
				require.True(t, l.passes(id, hns.In, "10.0.1.2", addr, 80), id)
			}
			require.True(t, slices.ContainsFunc(l.report.Warnings, func(w state.Warning) bool {
				return w.Object == "x/odd" && strings.Contains(w.Message, fmt.Sprintf("0x%08x", code))
			}), "%v", l.report.Warnings)
		})
	}
}

// TestAnEndpointCannotBeRead: whosever it is, new pods are found and have their rules
// in the same transaction.
func TestAnEndpointCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, code := range []uint32{0x803B0031, 0x803B0017} {
		t.Run(fmt.Sprintf("0x%08X", code), func(t *testing.T) {
			t.Parallel()
			l := begin(t, oneSet)
			require.NoError(t, l.sim.CreateEndpoint(hnssim.NewEndpoint{ID: "bad", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.9")}}))
			l.sim.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Target: "bad", Times: -1, Code: code})
			l.goOn()
			require.False(t, l.passes("ep-2", hns.In, "10.9.9.9", "10.0.0.2", 80))
			require.True(t, l.passes("ep-2", hns.In, "10.0.1.2", "10.0.0.2", 80))
		})
	}
}

// TestEndpointMadeAnew: its pod runs on, and nobody says anything. It is found by the
// next enumeration, 5 s later at the latest.
func TestEndpointMadeAnew(t *testing.T) {
	t.Parallel()
	l := begin(t, oneSet)
	l.goOn()
	l.live(time.Minute)
	require.NoError(t, l.sim.DeleteEndpoint("ep-1"))
	require.NoError(t, l.sim.CreateEndpoint(hnssim.NewEndpoint{ID: "anew", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
	require.True(t, l.passes("anew", hns.In, "10.9.9.9", "10.0.0.1", 80))
	l.live(5*time.Second + 2*lookTakes)
	require.False(t, l.passes("anew", hns.In, "10.9.9.9", "10.0.0.1", 80))
	l.isRight()
}

// TestLossIsRepairedWithinAMinute: HNS forgets something and its process lives on.
func TestLossIsRepairedWithinAMinute(t *testing.T) {
	t.Parallel()
	isAPI := func(s hns.SetPolicy) bool { return s.Name == "podlabel-app:api" }
	noSet, noRule := func(hns.SetPolicy) bool { return false }, func(string, hns.ACL) bool { return false }
	for name, lose := range map[string]func(*life){
		"the rules of an endpoint": func(l *life) {
			l.sim.Forget("", "", noSet, func(on string, a hns.ACL) bool { return on == "ep-1" && a.Ours() })
		},
		"a set": func(l *life) { l.sim.Forget("", "", isAPI, noRule) },
		"everything": func(l *life) {
			l.sim.Forget("", "", func(s hns.SetPolicy) bool { return strings.HasPrefix(s.ID, hns.SetIDPrefix) }, func(_ string, a hns.ACL) bool { return a.Ours() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := begin(t, oneSet)
			l.goOn()
			l.live(10 * time.Minute)
			lose(l)
			l.live(time.Minute + 2*time.Second)
			l.isRight()
		})
	}
}

// TestRefusedForAMoment: a rule, or a set, is refused once and then is not. It is
// there half a minute later, without any event.
func TestRefusedForAMoment(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(*hnsfault.Sim, bool){
		"rule": func(sim *hnsfault.Sim, on bool) {
			sim.RejectACL(func(a hns.ACL) bool { return on && a.ID == "azure-acl-x.odd" })
		},
		"set": func(sim *hnsfault.Sim, on bool) {
			sim.RejectSet(func(s hns.SetPolicy) bool { return on && s.Name == "podlabel-app:odd" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := begin(t, oneSet)
			refuse(l.sim, true)
			l.goOn()
			require.NotEmpty(t, l.report.Warnings)
			l.sim.RejectACL(nil)
			l.sim.RejectSet(nil)
			l.live(31 * time.Second)
			require.Empty(t, l.report.Warnings)
			l.isRight()
		})
	}
}

const leaver = `
endpoint ep-1 10.0.0.1
namespace x
pod x/w 10.0.0.1 app=web
pod x/m 10.0.1.1 app=api tier=back remote
pod x/one 10.0.1.2 app=api remote
pod x/two 10.0.1.3 tier=front remote
policy x/p {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api, tier: front}}}]}]}
start
pod x/m 10.0.1.1 app=db tier=front remote
apply`

// TestLeavingComesFirst: a pod changes its labels from one that the rule asks for to
// the other, so it is never let in. HNS refuses the set that it leaves, or does not
// answer; the one that it joins would be fine.
func TestLeavingComesFirst(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]hnsfault.Fault{
		"refused":                   {Err: hns.ErrInvalid},
		"a code of no meaning":      {Code: 0x80004005},
		"no answer":                 {Err: hns.ErrUnavailable},
		"no answer, and it is done": {Err: hns.ErrUnavailable, Mode: hnsfault.LoseReply},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := begin(t, leaver)
			fault.Op, fault.Target, fault.Times = "SetPolicy/Update", "podlabel-app:api", 5
			l.sim.Inject(fault)
			l.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
				l.onCall(c, when)
				require.False(t, l.passes("ep-1", hns.In, "10.0.1.1", "10.0.0.1", 80), "after %s", describe(c))
			})
			l.goOn()
			l.live(time.Hour)
			l.isRight()
		})
	}
}

const goner = `
endpoint ep-1 10.0.0.1
namespace x team=a
pod x/w 10.0.0.1 app=web
pod x/api 10.0.1.1 app=api remote
policy x/p {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}}]}]}
policy x/q {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}
start
delete policy x/p
apply
wait 5m
pod x/api 10.0.1.9 app=api remote
apply`

// TestARemovalFailsForGood: a nested set cannot be removed. An event is in force in
// its own transaction, the node says that it is done, and leaves of other sets go.
func TestARemovalFailsForGood(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]hnsfault.Fault{"refused": {Err: hns.ErrInvalid}, "no answer": {Err: hns.ErrUnavailable}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := begin(t, goner)
			fault.Op, fault.Target, fault.Times = "SetPolicy/Remove", "nslabel-team:a", -1
			l.sim.Inject(fault)
			l.goOn()
			require.True(t, l.passes("ep-1", hns.In, "10.0.1.9", "10.0.0.1", 80))
			require.False(t, l.passes("ep-1", hns.In, "10.0.1.1", "10.0.0.1", 80))
			l.step(step{do: apply, events: []event{{name: policyName("x", "q"), text: "delete policy x/q"}}})
			l.live(time.Minute)
			require.Zero(t, l.report.RetryAfter)
			names := []string{}
			for _, s := range l.sim.Sets() {
				names = append(names, s.Name)
			}
			require.Equal(t, []string{"empty-emptyhashset", "ns-x", "nslabel-team:a"}, names)
		})
	}
}

// TestOthersRulesAsTheyAre: HNS shows others' rules in other bytes at each read, or
// takes no Update with fields that are not documented. A new pod has its rules and an
// edit is in force, each in its own transaction; nothing of the others' is lost, and
// then nothing is written.
func TestOthersRulesAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]hnsfault.Personality{
		"restless":     {Show: (&spelling{restless: true, counter: true}).show},
		"shuffled":     {Show: hnsfault.Shuffle(1)},
		"undocumented": {Refuse: hnsfault.OnlyDocumented},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := begin(t, oneSet+"\npolicy x/good {podSelector: {}, ingress: [{ports: [{port: 81}]}]}\napply")
			l.become(character{Personality: p})
			others := func() []string {
				e, _ := l.sim.Endpoint("ep-1")
				_, foreign := hns.Endpoint{Policies: e.Policies}.Split()
				texts := make([]string, len(foreign))
				for i, f := range foreign {
					if texts[i] = f.Type; f.Type != hns.PolicyTypeACL {
						continue // shown in other bytes too
					}
					a, err := f.ACL()
					require.NoError(t, err)
					texts[i] = fmt.Sprint(a.Canonical())
				}
				return texts
			}
			before := others()
			l.goOn()
			l.isRight()
			require.ElementsMatch(t, before, others())
			first := len(l.calls)
			l.live(time.Hour)
			require.Empty(t, l.writesSince(first))
		})
	}
}

// TestManyRefusedSetsYield: a thousand sets are refused. A transaction after which
// the next one is due makes a few requests, and the pod is closed by the first.
func TestManyRefusedSetsYield(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("endpoint ep-1 10.0.0.1\nnamespace x\nstart\npod x/w 10.0.0.1 app=web\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "policy x/p%d {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: v%d}}}]}]}\n", i, i)
	}
	text.WriteString("apply")
	l := begin(t, text.String())
	l.sim.RejectSet(func(s hns.SetPolicy) bool { return strings.HasPrefix(s.Name, "podlabel-") })
	tx := dataplane.NewTransaction()
	for _, e := range l.sc.steps[0].events {
		e.tell(tx)
	}
	tx.SetYield(func(int) bool { return true })
	first := len(l.calls)
	l.apply(tx)
	require.Positive(t, l.report.Yielded)
	require.Less(t, len(l.calls)-first, 30)
	require.False(t, l.passes("ep-1", hns.In, "10.9.9.9", "10.0.0.1", 80))
}
