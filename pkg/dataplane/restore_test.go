package dataplane_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnstest"
)

// TestRestore: a dataplane that goes on from the dump of another one dumps the
// same, and does what the other would have done, whatever was outstanding.
func TestRestore(t *testing.T) {
	rounds(t, func(t *testing.T, rt *rapid.T, first *string) {
		w := newWalker(rt, t.Context(), dataplane.Config{
			MaxBatchedACLs: rapid.SampledFrom([]int{30, 2}).Draw(rt, "batch"),
			Unchecked:      rapid.Bool().Draw(rt, "unchecked"),
			GracePeriod:    rapid.SampledFrom([]time.Duration{0, 10 * time.Second}).Draw(rt, "grace"),
		}, walkSim(), newCluster())
		w.first = first
		w.faulty = rapid.Bool().Draw(rt, "faults")
		w.rejecting = rapid.Bool().Draw(rt, "rejections")
		actions := w.actions()
		for _, name := range []string{"process", "tamper", "look", "fold"} { // what was observed is another dataplane's
			delete(actions, name)
		}
		if !w.faulty {
			delete(actions, "fault")
			delete(actions, "come and go")
		}
		if !w.rejecting {
			delete(actions, "reject")
		}
		actions["restore"] = func(*rapid.T) { w.restore() }
		rt.Repeat(actions)
		w.restore()
		w.calm()
		w.compare()
	})
}

// TestRestorePinned: of a set that is needed only by what an endpoint may have it is known as before since when it is
// not as it should be, and that HNS refuses it.
func TestRestorePinned(t *testing.T) {
	w := newWorld(t, policyText("p", webFromAPI))
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1 app=web", "policy p", "apply")
	w.sim.Inject(hnssim.Fault{Op: hns.OpACLUpdate, Mode: hnssim.LoseReply})
	w.sim.Inject(hnssim.Fault{Op: hns.OpSets(hns.Update), Err: hns.ErrInvalid, Times: -1})
	w.do("delete policy x/p", "pod x/a 10.0.1.1 app=api remote", "! apply", "advance 1s")
	was := w.dp.Dump()
	view, err := dataplane.ViewOf(was)
	require.NoError(t, err)
	again, err := dataplane.Restore(dataplane.Config{Now: w.clock}, was, view)
	require.NoError(t, err)
	late := func(d state.Dump) map[string]time.Duration {
		out := map[string]time.Duration{}
		for _, s := range d.Sets {
			require.Empty(t, s.Holders)
			if s.Refused {
				out[s.Name] = w.now.Sub(s.Since)
			}
		}
		return out
	}
	require.Equal(t, map[string]time.Duration{"ns-x": time.Second, "podlabel-app:api": time.Second}, late(was))
	require.Equal(t, late(was), late(again.Dump()))
}

// TestRestorePinnedSet: a set that only the pin of an endpoint keeps, of which the last
// write has an unknown outcome, is fed as before and late since when it was.
func TestRestorePinnedSet(t *testing.T) {
	w := newWorld(t, policyText("p", `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`))
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "policy p", "pod x/a 10.0.1.1 app=api remote", "apply",
		"fault SetPolicy/Update * refuse", "fault ACL/Update * refuse",
		"pod x/b 10.0.1.2 app=api remote", "delete policy x/p", "! apply")
	late := w.now
	w.do("advance 1s", "fault Network/Get * refuse", "fault Endpoint/Get * refuse", "! apply")
	was := w.dp.Dump()
	require.Equal(t, []string{"ep"}, was.Sets[0].Pins)
	require.Empty(t, was.Sets[0].Holders)
	require.Equal(t, late, was.Sets[0].Since)

	view, err := dataplane.ViewOf(was)
	require.NoError(t, err)
	w.dp, err = dataplane.Restore(dataplane.Config{Client: w.sim, Node: "n1", Now: w.clock}, was, view)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(was.Sets, w.dp.Dump().Sets))
}

// TestRestoreAndGoOn: in the middle of something, a dataplane that goes on from the dump writes
// what the one before would have written.
func TestRestoreAndGoOn(t *testing.T) {
	tests := map[string]struct {
		policy string
		before func(w *script)
		change string
		writes map[string]int
	}{
		// HNS lacks a member of the nested set, which it refuses. The rules of an endpoint that is
		// nobody's are all that names the set.
		"an orphaned set with a refused member": {
			policy: `{podSelector: {}, ingress: [{from: [{podSelector: {matchExpressions: [{key: a, operator: In, values: [v1, v2]}]}}]}]}`,
			before: func(w *script) {
				w.do("pod x/a 10.0.1.1 a=v1 remote", "apply", "pod x/w 10.0.0.9", "delete policy x/p", "apply",
					"reject set podlabel-a:v1 10.0.1.2", "pod x/b 10.0.1.2 a=v1 remote", "! apply")
			},
			change: "delete pod x/b",
			writes: map[string]int{"SetPolicy/Update": 2}, // the member comes back
		},
		"an orphaned set that HNS lost": {
			policy: `{podSelector: {}, ingress: [{from: [{podSelector: {matchExpressions: [{key: a, operator: NotIn, values: [v1]}]}}]}]}`,
			before: func(w *script) {
				w.do("apply", "pod x/w 10.0.0.9", "delete policy x/p", "apply", "restart-hns", "fault SetPolicy/Update * refuse", "pod x/a 10.0.1.1 remote", "! apply",
					"advance 1s", "fault SetPolicy/Add * refuse", "! apply")
			},
			change: "advance 2s",
			writes: map[string]int{"SetPolicy/Add": 1},
		},
		// HNS refused this content before, so it is asked for it alone.
		"a refused content that comes back": {
			policy: `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: v1}}}, {podSelector: {matchLabels: {b: v1}}}]}]}`,
			before: func(w *script) {
				w.do("pod x/a 10.0.1.1 a=v1 remote", "apply", "reject set podlabel-a:v1 10.0.1.2", "pod x/b 10.0.1.2 a=v1 b=v1 remote", "! apply", "delete pod x/b", "apply")
			},
			change: "pod x/b 10.0.1.2 a=v1 b=v1 remote",
			writes: map[string]int{"SetPolicy/Update": 2, "ACL/Update": 1},
		},
		// The search for the refused set goes on at once, and what waits for the others is woken.
		"a search that was left": {
			policy: `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: v1}}}, {podSelector: {matchLabels: {b: v1}}}, {podSelector: {matchLabels: {c: v1}}}]}]}`,
			before: func(w *script) {
				w.sim.RejectSet(func(s hns.SetPolicy) bool { return s.Name == "podlabel-b:v1" })
				w.tx.SetYield(func(int) bool { return true })
				w.do("! apply")
			},
			change: "namespace y",
			writes: map[string]int{"SetPolicy/Add": 3, "ACL/Add": 1},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var calls [2][]string
			for i, restored := range []bool{false, true} {
				w := newWorld(t, policyText("p", tt.policy))
				w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "policy p")
				tt.before(w)
				if restored {
					was := w.dp.Dump()
					view, err := dataplane.ViewOf(was)
					require.NoError(t, err)
					w.dp, err = dataplane.Restore(dataplane.Config{Client: w.sim, Node: "n1", Now: w.clock}, was, view)
					require.NoError(t, err)
					require.Empty(t, cmp.Diff(was.Sets, w.dp.Dump().Sets))
				}
				w.do(tt.change)
				_ = w.apply()
				writes := maps.Clone(w.report.Calls)
				maps.DeleteFunc(writes, func(op string, _ int) bool { return hns.ReadsOnly(op) })
				require.Equal(t, tt.writes, writes, "restored: %t", restored)
				calls[i] = callTexts(w.sim.Calls())
			}
			require.Equal(t, calls[0], calls[1])
		})
	}
}

// TestRestoreRefusedUnneeded: a set that HNS refuses and that no rule needs is in no warning,
// before and after.
func TestRestoreRefusedUnneeded(t *testing.T) {
	w := newWorld(t, policyText("p", `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: v1}}}]}]}`))
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "policy p", "reject set podlabel-a:v1 10.0.1.1", "pod x/a 10.0.1.1 a=v1 remote", "! apply")
	require.Len(t, w.dp.Warnings(), 1)
	w.do("no-endpoint ep", "advance 1s", "observe", "apply", "observe", "apply")
	was := w.dp.Dump()
	require.True(t, slices.ContainsFunc(was.Sets, func(s state.Set) bool { return s.Refused }), "it is remembered")
	require.Empty(t, was.Warnings, "the pod has no endpoint from which anything could be left out")
	view, err := dataplane.ViewOf(was)
	require.NoError(t, err)
	again, err := dataplane.Restore(dataplane.Config{Now: w.clock}, was, view)
	require.NoError(t, err)
	require.Empty(t, again.Warnings())
	w.do("endpoint ep 10.0.0.1", "advance 30s", "! apply")
	require.Len(t, w.dp.Warnings(), 1)
}

// restore puts a dataplane that goes on from the dump in place of the walker's.
func (w *walker) restore() {
	w.note("restore")
	text, err := json.Marshal(w.dp.Dump())
	require.NoError(w.t, err)
	var was state.Dump
	require.NoError(w.t, json.Unmarshal(text, &was))
	view, err := dataplane.ViewOf(was)
	require.NoError(w.t, err)
	w.dp, err = dataplane.Restore(w.cfg, was, view)
	require.NoError(w.t, err)
	is := w.dp.Dump()
	was.Reports = nil
	is.Reports = []state.Report{}
	text, err = json.Marshal(is)
	require.NoError(w.t, err)
	is = state.Dump{}
	require.NoError(w.t, json.Unmarshal(text, &is))
	is.Reports, is.LookAge, was.LookAge = nil, 0, 0
	foreign := func(w state.Warning) bool { return w.Reason == state.ReasonForeignWrites }
	was.Warnings, is.Warnings = slices.DeleteFunc(was.Warnings, foreign), slices.DeleteFunc(is.Warnings, foreign)
	for _, d := range []*state.Dump{&was, &is} {
		for i := range d.Endpoints {
			d.Endpoints[i].Foreign = 0 // a dump counts them, and has the rules only
		}
	}
	// Of a number of a named port that no peer has any more it does not tell whether its rule may stay.
	sets := wantedSets(was)
	if slices.ContainsFunc(was.Endpoints, func(ep state.Endpoint) bool {
		return slices.ContainsFunc(slices.Concat(slices.Concat(ep.Maybe...), ep.Applied, ep.Wanted), func(a hns.ACL) bool { return hnstest.Unused(a, sets) })
	}) {
		return
	}
	if diff := cmp.Diff(was, is, cmpopts.EquateEmpty()); diff != "" {
		w.fail("restored differs (-was +is):\n%s", diff)
	}
}
