package dataplane_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
)

// live lets time pass as in the worker: HNS is observed at every interval, and
// what is due is retried. After each transaction other has his turn. It returns
// the writes.
func (w *world) live(lasts, every time.Duration, other func()) (writes int) {
	w.t.Helper()
	end, look := w.now.Add(lasts), w.now.Add(every)
	for {
		next := look
		if due := w.now.Add(w.report.RetryAfter); w.report.RetryAfter > 0 && due.Before(next) {
			next = due
		}
		if next.After(end) {
			w.now = end
			return writes
		}
		if w.now = next; next.Equal(look) {
			w.do("observe")
			look = look.Add(every)
		}
		w.do("apply")
		writes += w.writes()
		other()
	}
}

// foreignWrites returns the warnings of that reason.
func (w *world) foreignWrites() []state.Warning {
	var out []state.Warning
	for _, warning := range w.dp.Warnings() {
		if warning.Reason == state.ReasonForeignWrites {
			out = append(out, warning)
		}
	}
	return out
}

// fight is one object that another program undoes after every repair of ours.
type fight struct {
	kind, object, warningKind string
	undo                      string // command
	about                     string // in the warning
}

var fights = map[string]fight{
	"rules": {"acl", "x/w1", "Pod", "drop-acl ep-1 azure-acl-npm-block-in", "rules on endpoint ep-1"},
	"set":   {"set", "podlabel-app:api", "Set", "put-set podlabel-app:api IPSET 10.7.7.7", "the set"},
}

// TestScenario_B7_NoFight: another agent undoes every repair for two hours. We
// write less and less, say so, and let nobody else wait; when he stops, our last
// write holds and all is forgotten.
func TestScenario_B7_NoFight(t *testing.T) {
	for name, f := range fights {
		for _, tc := range []struct {
			every time.Duration
			most  int
		}{
			{5 * time.Minute, 18},  // of 24: the reconciler alone is slow already
			{10 * time.Second, 24}, // of 720
		}[:effort.Of(1, 2)] {
			t.Run(name+" "+tc.every.String(), func(t *testing.T) {
				w := dWorld(t)
				w.do("policy x/p "+webFromAPI, "apply")
				right := w.sim.Dump()
				undo := func() {
					if w.sim.Dump() == right {
						w.do(f.undo)
					}
				}
				undo()
				wrong := w.sim.Dump()
				require.NotEqual(t, right, wrong)

				for range 2 { // once and twice are put right at once
					w.do("observe", "apply")
					require.Equal(t, right, w.sim.Dump())
					require.True(t, w.report.Converged())
					require.Empty(t, w.foreignWrites())
					require.Empty(t, w.dp.Stats().Damped[f.kind])
					undo()
				}
				writes := 2 + w.live(2*time.Hour-2*tc.every, tc.every, undo)
				require.LessOrEqual(t, writes, tc.most)
				require.Greater(t, writes, tc.most/2, "it never gives up")
				require.Equal(t, uint64(writes), w.dp.Stats().DriftRepaired[f.kind])
				require.Equal(t, 1, w.dp.Stats().Damped[f.kind])
				warnings := w.foreignWrites()
				require.Len(t, warnings, 1)
				require.Equal(t, []string{f.object, f.warningKind}, []string{warnings[0].Object, warnings[0].Kind})
				require.Contains(t, warnings[0].Message, "somebody else keeps changing "+f.about+":")
				require.Contains(t, warnings[0].Message, "azure-npm")
				require.NotContains(t, warnings[0].Message, "\n")

				last := w.live(20*time.Minute, tc.every, func() {})
				require.LessOrEqual(t, last, 1, "the last write holds")
				require.Equal(t, right, w.sim.Dump())
				require.NotEmpty(t, w.foreignWrites(), "not forgotten yet")
				require.Zero(t, w.live(35*time.Minute, tc.every, func() {}))
				require.Empty(t, w.foreignWrites())
				require.Equal(t, map[string]int{"set": 0, "acl": 0}, w.dp.Stats().Damped)

				w.do(f.undo, "observe", "apply")
				require.Equal(t, right, w.sim.Dump(), "a new one is put right at once")
			})
		}
	}
}

// While an object is disputed and its repair waits, other objects are repaired
// at once, and so is what an event changes, be it of the object itself.
func TestEventsWhileDamped(t *testing.T) {
	w := dWorld(t)
	w.do("policy x/p "+webFromAPI, "apply")
	rules, set := fights["rules"], fights["set"]
	for range 9 {
		w.do(rules.undo, set.undo, "observe", "apply")
		w.settle()
	}
	w.do(rules.undo, set.undo, "observe", "apply", "calls SetPolicy/Update=1") // a set waits afterwards
	w.do(set.undo, "observe", "apply", "calls")
	require.Greater(t, w.report.RetryAfter, time.Minute*3/4, "the repair waits")
	require.Len(t, w.foreignWrites(), 2)

	w.clear("ep-2")
	w.do("observe", "apply", "calls ACL/Add=1")
	require.Equal(t, []state.Repair{{Kind: "acl", Object: "ep-2", Pod: "x/w2", Found: "2 rules missing"}}, w.report.Repairs)
	w.do("pod x/api2 10.0.1.77 app=api remote", "apply", "calls SetPolicy/Update=1", "trace 10.0.1.77 -> 10.0.0.2 TCP/80 ep-2 in allow", "trace 10.7.7.7 -> 10.0.0.2 TCP/80 ep-2 in block")
	w.do(`policy x/q {podSelector: {}, ingress: [{ports: [{port: 443}]}]}`, "apply", "calls ACL/Add=3")
	require.True(t, w.report.Converged())
	w.do("trace 10.0.0.9 -> 10.0.0.1 TCP/443 ep-1 in allow", "trace 10.0.0.9 -> 10.0.0.1 TCP/80 ep-1 in block")
	w.do(rules.undo, "observe", "delete policy x/q", "apply") // found in the transaction of the event
	require.True(t, w.report.Converged())
	w.do("trace 10.0.0.9 -> 10.0.0.1 TCP/443 ep-1 in block")
}

// While the repair of an endpoint waits, somebody may put it right or do more:
// it is read again before it is written.
func TestDampedEndpointIsReadAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile, calls, found string
	}{
		"put right": {`foreign ep-1 ACL {"Id":"azure-acl-npm-block-in","Action":"Block","Direction":"In","Priority":3000,"RuleType":"Switch"}`, "", ""},
		"more gone": {"drop-acl ep-1 azure-acl-x.p", "ACL/Add=1", "2 rules missing"},
		"unchanged": {"", "ACL/Add=1", "1 rule missing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := dWorld(t)
			w.do("policy x/p "+webFromAPI, "apply")
			right := w.sim.Dump()
			for range 2 {
				w.do(fights["rules"].undo, "observe", "apply")
			}
			w.do(fights["rules"].undo, "observe", "apply", "calls")
			require.Equal(t, 1, w.report.Pending)
			w.do(strings.TrimSpace(tc.meanwhile))
			w.now = w.now.Add(w.report.RetryAfter)
			w.do("apply", "calls "+tc.calls)
			require.True(t, w.report.Converged())
			require.Equal(t, right, w.sim.Dump())
			require.Equal(t, uint64(3), w.dp.Stats().DriftFound["acl"], "what comes on top is part of it")
			if tc.found == "" {
				require.Empty(t, w.report.Repairs, "it was not our work")
				return
			}
			require.Equal(t, []state.Repair{{Kind: "acl", Object: "ep-1", Pod: "x/w1", Found: tc.found}}, w.report.Repairs)
		})
	}
}
