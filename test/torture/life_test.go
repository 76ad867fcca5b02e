package torture

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/looks"
	"github.com/winnpm/winnpm/test/script"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// life is a history on an HNS with a personality. Time passes as it does for the
// agent: transactions when the last report asks for them, and looks in between when
// NextLook does. Nothing waits: a call and a transaction take no time.
type life struct {
	machine // nothing of todo is ever done

	odd    character // zero while HNS is an ordinary one
	births *births
	calls  []hnsfault.Call
	read   map[string]bool    // endpoints that the process has read, in lower case
	asked  time.Time          // when the report came
	failed map[string]setback // looks, by what they read
	warned map[string]bool    // warnings since somebody asked
}

// setback is a look that failed: the agent makes it again after 1, 2, 4 … 30 s.
type setback struct {
	pause time.Duration
	until time.Time
}

// lookTakes is what a look and a transaction take, so that time never stands still.
const lookTakes = time.Millisecond

func newLife(t tester, sc *scenario) *life {
	l := &life{machine: newMachine(t, sc, newMemo()), births: &births{newOutstanding(newMemo()), map[string]*outstanding{}}, warned: map[string]bool{}}
	// A node without any endpoint is not settled.
	require.NoError(t, l.sim.CreateEndpoint(hnssim.SimEndpoint{ID: "ep-0", Addrs: []netip.Addr{netip.MustParseAddr("10.255.0.1")}}))
	l.start()
	l.sim.OnCall(l.onCall)
	return l
}

// start is a new process: it knows nothing.
func (l *life) start() {
	l.dp = l.process(l.sim)
	l.read, l.failed = map[string]bool{}, map[string]setback{}
}

// become gives HNS a personality; the zero value lifts it.
func (l *life) become(c character) {
	l.note("HNS is now: %s", c.says)
	l.sim.SetPersonality(c.Personality)
	l.odd = c
}

func (l *life) onCall(c hnsfault.Call, when hnsfault.When) {
	if when == hnsfault.Before {
		return
	}
	l.calls = append(l.calls, c)
	if c.Op == hns.OpEndpointGet && (c.Err == nil || hns.EndpointGone(c.Err)) {
		l.read[strings.ToLower(c.Target)] = c.Err == nil
	}
	if isWrite(c.Op) {
		l.note("%s", describe(c))
	} else if c.Err != nil {
		l.note("  %s %s -> %v", c.Op, c.Target, c.Err)
	}
}

// step is one thing that happens.
func (l *life) step(s step) {
	l.note("%v: step %v", l.now.Sub(time.Unix(1_700_000_000, 0)), s)
	switch s.do {
	case apply:
		tx := dataplane.NewTransaction()
		for _, e := range s.events {
			e.tell(tx)
		}
		l.births.learn(l.todo, s.events)
		l.apply(tx)
	case cni:
		require.NoError(l.t, script.Change(l.sim, s.words))
	case settle:
		l.live(time.Minute)
	case wait:
		l.live(s.wait)
	case observe:
		l.look(looks.All(l.dp))
	case restart:
		l.restart()
	case hand, stop, inherit: // histories at random have none
	}
}

// restart is a new process that learns of everything at once.
func (l *life) restart() {
	l.note("a new process")
	l.start()
	l.apply(l.todo.now.whole())
}

// apply hands a transaction over.
func (l *life) apply(tx *dataplane.Transaction) {
	l.now = l.now.Add(lookTakes)
	report, err := l.dp.ApplyDataplane(l.t.Context(), tx)
	require.NoError(l.t, err)
	l.report, l.asked = report, l.now
	for _, w := range report.Warnings {
		l.warned[w.Message] = true
	}
	if len(report.Errors)+len(report.Calls) > 0 {
		l.note("%v: applied: %v, pending %d, unprogrammed %d, again in %v, probes in %v, errors %q", l.now.Sub(time.Unix(1_700_000_000, 0)),
			report.Calls, report.Pending, report.Unprogrammed, report.RetryAfter, report.ProbeAfter, report.Errors)
	}
}

// live lets time pass.
func (l *life) live(d time.Duration) {
	const often = 100 // steps in one second
	end := l.now.Add(d)
	var second time.Time
	steps := 0
	for {
		next := end
		if after := l.report.Next(); after > 0 {
			next = earlier(next, l.asked.Add(after))
		}
		look, at := l.dp.NextLook()
		if until := l.failed[fmt.Sprint(look)].until; at.Before(until) {
			at = until
		}
		looks := at.Before(next)
		if looks {
			next = at
		}
		if !next.Before(end) {
			l.now = end
			return
		}
		if next.After(l.now) {
			l.now = next
		}
		if steps++; l.now.Sub(second) >= time.Second {
			second, steps = l.now, 0
		} else if steps > often {
			l.fail("it spins")
		}
		if looks {
			l.look(look)
		} else {
			l.apply(dataplane.NewTransaction())
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// look is one look, with the transaction that is due for what it found.
func (l *life) look(look dataplane.Look) {
	l.now = l.now.Add(lookTakes)
	due, err := l.dp.Observe(l.t.Context(), look)
	name := fmt.Sprint(look)
	if err != nil {
		pause := min(max(2*l.failed[name].pause, time.Second), 30*time.Second)
		l.failed[name] = setback{pause, l.now.Add(pause)}
		return
	}
	delete(l.failed, name)
	if due {
		l.apply(dataplane.NewTransaction())
	}
}

// sweep is the CNI, which takes endpoints away that have no pod: they keep what they
// have. One stays for good, as a node without any is not settled.
func (l *life) sweep() {
	c := cluster(l.todo.now.values())
	for _, e := range l.sim.Endpoints() {
		if !local(c, e.Addrs[0]) && e.ID != "ep-0" {
			require.NoError(l.t, l.sim.DeleteEndpoint(e.ID))
		}
	}
}

// writesSince returns the writes since the call with this index.
func (l *life) writesSince(first int) []hnsfault.Call {
	return slices.DeleteFunc(slices.Clone(l.calls[first:]), func(c hnsfault.Call) bool { return !isWrite(c.Op) })
}

// refusal returns the HRESULT with which HNS refused a call, 0 when it did not.
func refusal(c hnsfault.Call) uint32 {
	if !hns.Answered(c.Err) {
		return 0
	}
	return hns.CodeOf(c.Err)
}

// fail ends the history with everything that a reader needs.
func (l *life) fail(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("%s\n%s\n\nstory:\n%s\n\nHNS:\n%s", fmt.Sprintf(format, args...), l.odd.says, strings.Join(l.story, "\n"), l.sim.Dump())
}
