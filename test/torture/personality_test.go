package torture

import (
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// What is asked of a history on a personality.
const (
	// What HNS does not refuse is right this long after the last event: a look, which takes
	// a minute, finds what HNS ignored. What HNS refused in an earlier form takes ten
	// minutes.
	rightAfter = 2 * time.Minute
	maxRight   = 200 // calls until then, most of them looks
	// What HNS refused is asked for again after 30 s, 1, 2, 5 and then every 10 min.
	settled = 25 * time.Minute
	maxAsks = 7 // an hour
	// A write that HNS ignores, or does by halves, makes two more.
	slack = 14
)

// TestPersonalities plays random histories on random personalities of HNS, which
// are lifted in the end.
func TestPersonalities(t *testing.T) {
	t.Parallel()
	histories(t)
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t, drawScenario(t))
		l.play(t, drawCharacter(t))
		l.sweep()
		l.checkRight()
		l.checkClosed()
		l.checkHour()
		l.checkLifted()
	})
}

// play plays the history. The personality comes at some time of its start.
func (l *life) play(t *rapid.T, c character) {
	from := rapid.IntRange(0, len(l.sc.given)).Draw(t, "from")
	for i, s := range slices.Concat(l.sc.given, l.sc.steps) {
		if i == from {
			l.become(c)
		}
		l.step(s)
		l.live(rapid.SampledFrom([]time.Duration{0, 0, time.Second, 30 * time.Second, 5 * time.Minute}).Draw(t, "pause"))
	}
}

// checkRight: what HNS does not refuse is right soon, whatever becomes of the rest,
// and stays so.
func (l *life) checkRight() {
	f, first, end := l.fairly(), len(l.calls), l.now.Add(rightAfter)
	for l.differs(f) != "" && l.now.Before(end) {
		l.live(time.Second)
	}
	if d := l.differs(f.but(l.dp.Dump())); d != "" {
		l.fail("%v after the last event, %s", rightAfter, d)
	}
	if calls := len(l.calls) - first; calls > maxRight {
		l.fail("all is right after %d calls only", calls)
	}
	l.live(settled)
	if l.unused() {
		f = f.but(l.dp.Dump()) // a rule that is not needed any more may be what is refused of a policy
	}
	if d := l.differs(f); d != "" {
		l.fail("%v later %s", settled, d)
	}
}

// checkHour: in an hour without any event each thing that HNS rejects is asked for
// a few times, and nothing else is written. Whatever HNS rejects is in a warning with
// its code.
func (l *life) checkHour() {
	first := len(l.calls)
	clear(l.warned)
	l.live(time.Hour)
	hour := l.writesSince(first)
	count := map[string]int{}
	for i, c := range hour {
		for _, set := range c.Sets {
			count[set.Name]++
		}
		if onEndpoint(c) && !secondForm(hour, i+1) {
			count[strings.ToLower(c.Target)]++
		}
	}
	for name, most := range l.allowance() {
		if l.odd.whimsical {
			most += slack
		}
		if count[name] > most {
			l.fail("%d writes of %s within an hour, and not %d", count[name], name, most)
		}
		delete(count, name)
	}
	maps.DeleteFunc(count, func(_ string, n int) bool { return l.odd.whimsical && n <= slack })
	if len(count) > 0 {
		l.fail("nothing is refused of these, and yet they are written: %v", count)
	}
	said := strings.Join(slices.Sorted(maps.Keys(l.warned)), "\n")
	for i, c := range hour {
		// What HNS takes in another form is not refused, nor is what it does by halves now and then:
		// in the midst of a retry, the next write tells what becomes of it.
		again := secondForm(hour, i+1) && hour[i+1].Err == nil
		if code := refusal(c); code != 0 && !again && (!l.odd.whimsical || code != l.odd.broke) && !strings.Contains(said, fmt.Sprintf("0x%08x", code)) {
			l.fail("HNS rejects %s with 0x%08x, which is in no warning:\n%s", c.Op, code, said)
		}
	}
}

// secondForm reports whether a call repeats the Update before it, which HNS refused, in another
// form. Both are one ask.
func secondForm(calls []hnsfault.Call, i int) bool {
	if i >= len(calls) {
		return false
	}
	before, c := calls[i-1], calls[i]
	return before.Err != nil && c.Op == hns.OpACLUpdate && before.Op == c.Op && before.Target == c.Target
}

// allowance returns how often a rejected set may be written in an hour, and an endpoint with rejected
// policies. Each retry of an endpoint is a bisection of its policies, as a policy behind a quarantined
// Deny was not tested before: at most 2·log2(policies) writes for each rejected one.
func (l *life) allowance() map[string]int {
	out := map[string]int{}
	d := l.dp.Dump()
	bisection := 2 * bits.Len(uint(len(d.Policies)+len(d.ClusterPolicies)))
	for _, ep := range d.Endpoints {
		out[strings.ToLower(ep.ID)] = maxAsks * len(ep.Next.Refused) * bisection
	}
	for _, s := range d.Sets {
		if s.Refused || s.Again != nil {
			out[s.Name] = maxAsks
		}
	}
	return out
}

// checkLifted: when HNS is an ordinary one again, the node becomes what a fresh
// process makes of it. A new process then finds nothing to do. Under a spelling it
// writes each endpoint and each set once at most, to learn it; where words cannot be
// read at all several rules may look alike, and it takes more.
func (l *life) checkLifted() {
	if l.odd.harmless {
		for range 2 {
			first := len(l.calls)
			l.restart()
			l.live(5 * time.Minute)
			count := map[string]int{}
			for _, c := range l.writesSince(first) {
				for _, set := range c.Sets {
					count[set.Name]++
				}
				if onEndpoint(c) {
					count[c.Target]++
				}
			}
			most := 1
			if l.odd.strange {
				most = 8
			}
			for name, n := range count {
				if n > most {
					l.fail("a new process writes %s %d times", name, n)
				}
			}
		}
	}
	l.become(character{})
	l.live(settled)
	f := l.fresh()
	if d := l.differs(f); d != "" {
		l.fail("HNS is an ordinary one again, and %s", d)
	}
	if s := l.surplus(f); len(s) > 0 {
		l.fail("HNS is an ordinary one again, and has sets that nobody needs: %v", s)
	}
	first := len(l.calls)
	l.restart()
	if n := len(l.writesSince(first)); n > 0 {
		l.fail("a restart with nothing changed makes %d writes", n)
	}
}

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
func (l *life) passes(id string, dir hns.DirectionType, src, dst string, port uint16) bool {
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

// TestEndpointMadeAnew: its pod runs on, and nobody says anything. It is found by the
// next enumeration, 5 s later at the latest.
func TestEndpointMadeAnew(t *testing.T) {
	t.Parallel()
	l := begin(t, oneSet)
	l.goOn()
	l.live(time.Minute)
	require.NoError(t, l.sim.DeleteEndpoint("ep-1"))
	require.NoError(t, l.sim.CreateEndpoint(hnssim.SimEndpoint{ID: "anew", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
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
