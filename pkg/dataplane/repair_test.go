package dataplane_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// clear is somebody else who takes all our rules from an endpoint.
func (w *world) clear(id string) {
	w.t.Helper()
	require.NoError(w.t, w.sim.SetPolicies(id, hnssim.DefaultForeign()))
}

// requireAgreement checks that the counters are those of the repairs so far.
func (w *world) requireAgreement(all []state.Repair) {
	w.t.Helper()
	want := map[string]uint64{"set": 0, "acl": 0}
	for _, r := range all {
		want[r.Kind]++
	}
	require.Equal(w.t, want, w.dp.Stats().DriftRepaired)
}

// TestRepairIsBoundedWithoutDefaults: HNS loses the default rules of the CNI too, which changes the desired
// rules of an endpoint. That is still a repair.
func TestRepairIsBoundedWithoutDefaults(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", `policy x/all {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`)
	for i := range 70 {
		w.do(fmt.Sprintf("endpoint ep-%03d 10.0.1.%d", i, i+1), fmt.Sprintf("pod x/w%03d 10.0.1.%d", i, i+1))
	}
	w.do("apply")
	for i := range 70 {
		require.NoError(t, w.sim.SetPolicies(fmt.Sprintf("ep-%03d", i), nil))
	}
	w.do("observe")
	for _, want := range []int{32, 32, 6} {
		w.do("apply")
		require.Len(t, writtenEndpoints(w.sim), want)
	}
}

// TestScenario_B6_RepairIsBounded: HNS loses the rules of every endpoint of a
// node. A round writes a part of them only, so that an event that comes in the
// middle does not wait for all, and goes first.
func TestScenario_B6_RepairIsBounded(t *testing.T) {
	const endpoints, bound = 110, 32
	w := newWorld(t)
	w.do("namespace x", `policy x/all {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`)
	last := fmt.Sprintf("ep-%03d", endpoints-1)
	for i := range endpoints {
		w.do(fmt.Sprintf("endpoint ep-%03d 10.0.1.%d", i, i+1))
		label := map[bool]string{true: "odd=very"}[i == endpoints-1]
		w.do(fmt.Sprintf("pod x/w%03d 10.0.1.%d %s", i, i+1, label))
	}
	w.do("apply")
	require.True(t, w.report.Converged(), "events are not bounded")
	w.sim.Restart()
	lost := len(w.dp.Stats().Sets)

	var all []state.Repair
	for round, want := range []int{bound, 1 + bound, bound, endpoints - 3*bound - 1} {
		if round == 0 {
			w.do("observe")
		}
		if round == 1 { // its endpoint is the last of those that wait
			w.do(`policy x/odd {podSelector: {matchLabels: {odd: very}}, ingress: [{ports: [{port: 443}]}]}`)
		}
		w.do("apply")
		written := writtenEndpoints(w.sim)
		require.Len(t, written, want, "round %d", round)
		if round == 1 {
			require.Equal(t, last, written[0], "the event goes first")
			w.do("trace 10.0.0.9 -> 10.0.1.110 TCP/443 "+last+" in allow", "trace 10.0.0.9 -> 10.0.1.110 TCP/80 "+last+" in block")
		}
		if round < 3 {
			require.Equal(t, time.Millisecond, w.report.RetryAfter, "the rest is due at once")
		}
		all = append(all, w.report.Repairs...)
	}
	require.True(t, w.report.Converged())
	require.Len(t, all, endpoints+lost)
	require.Equal(t, map[string]uint64{"set": uint64(lost), "acl": endpoints}, w.dp.Stats().DriftFound)
	w.requireAgreement(all)
	w.do("observe", "apply", "calls")
}

// writtenEndpoints returns the endpoints written since the last apply began, in
// order, each once.
func writtenEndpoints(sim *hnsfault.Sim) []string {
	var out []string
	for _, c := range sim.Calls() {
		if c.Op == hns.OpACLAdd || c.Op == hns.OpACLUpdate {
			out = append(out, c.Target)
		}
	}
	return slices.Compact(out)
}

// takes lets every write last so long.
func (w *world) takes(d time.Duration) {
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if isWrite(c.Op) && when == hnsfault.Before {
			w.now = w.now.Add(d)
		}
	})
}

// TestPauseAfterSlowFailures: the pause begins when a write has failed. From the
// start of its round it would be over by then, and HNS never had one.
func TestPauseAfterSlowFailures(t *testing.T) {
	for op, target := range map[string]string{hns.OpACLAdd: "ep-1", "SetPolicy/Add": "podlabel-app:api"} {
		t.Run(op, func(t *testing.T) {
			w := dWorld(t)
			w.do("delete pod x/w2", "delete pod x/w3", "apply", "policy x/p "+webFromAPI)
			w.takes(40 * time.Second)
			w.sim.Inject(hnsfault.Fault{Op: op, Target: target, Times: -1})
			for _, pause := range []time.Duration{1, 2, 4} {
				_ = w.apply()
				require.InDelta(t, pause*time.Second, w.report.RetryAfter, float64(pause*time.Second/5))
				w.now = w.now.Add(w.report.RetryAfter)
			}
		})
	}
}

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
