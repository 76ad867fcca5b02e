package dataplane_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/hns/hnstest"
	"github.com/winnpm/winnpm/pkg/state"
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
	// Of a set that only rules in HNS still name, a dump does not tell what it was
	// defined as: nor then of a set that only that one names that HNS refuses it.
	orphan := func(s state.Set) bool {
		return len(s.Missing)+len(s.Surplus) > 0 && !slices.ContainsFunc(s.Holders, func(h string) bool { return !strings.HasPrefix(h, "applied ") })
	}
	if slices.ContainsFunc(was.Sets, orphan) {
		was.Sets, is.Sets = nil, nil
		ofSet := func(w state.Warning) bool { return w.Kind == "Set" }
		was.Warnings, is.Warnings = slices.DeleteFunc(was.Warnings, ofSet), slices.DeleteFunc(is.Warnings, ofSet)
	}
	// Nor of a number of a named port that no peer has any more whether its rule may stay.
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
