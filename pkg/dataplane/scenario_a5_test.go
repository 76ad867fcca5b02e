package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// a5P and a5Q share no set; the second one is about to go.
const (
	a5P = `policy x/p {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`
	a5Q = `policy x/q {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}]}]}`
)

// a5World is three web pods with both policies.
func a5World(t *testing.T) *world {
	w := dWorld(t)
	w.do(a5P, a5Q, "apply", "delete policy x/q")
	return w
}

// otherWriter changes an endpoint as an agent would that knows nothing of us: it
// loses the CNI's allow-all and our policy, and adds one of its own.
func (w *world) otherWriter(id string, n int) {
	w.t.Helper()
	policies := slices.DeleteFunc(w.policiesOf(id), func(p hns.EndpointPolicy) bool {
		a, err := p.ACL()
		return p.Type == "OutBoundNAT" || err == nil && (a.ID == "azure-acl-x.p" || a.Priority == 65500 && a.Direction == hns.In)
	})
	policies = append(policies, hns.EndpointPolicy{Type: "OutBoundNAT", Settings: fmt.Appendf(nil, `{"b": %d,  "a":"1"}`, n)})
	require.NoError(w.t, w.sim.SetPolicies(id, policies))
}

// requireViews checks that everything that is kept of an endpoint, and what is
// derived from it, is what HNS has.
func requireViews(t *testing.T, w *world) {
	t.Helper()
	dump, total := w.dp.Dump(), 0
	named := map[string]bool{} // "set endpoint"
	for _, ep := range dump.Endpoints {
		view, ok := w.sim.Endpoint(ep.ID)
		require.True(t, ok)
		ours, foreign := hns.Endpoint{Policies: view.Policies}.Split()
		require.Empty(t, cmp.Diff(textsOf(ours), textsOf(ep.Applied)), ep.ID)
		require.Equal(t, len(foreign), ep.Foreign, ep.ID)
		total += len(ours)
		for _, a := range ours {
			for _, id := range a.SetIDs() {
				named[id+" applied "+ep.ID] = true
			}
		}
	}
	require.Equal(t, total, w.dp.Stats().ACLs)
	held := map[string]bool{}
	for _, s := range dump.Sets {
		for _, h := range s.Holders {
			if strings.HasPrefix(h, "applied ") {
				held[s.ID+" "+h] = true
			}
		}
	}
	require.Empty(t, cmp.Diff(named, held), "what the applied rules name is held, and nothing else")
}

func textsOf(acls []hns.ACL) []string {
	out := make([]string, len(acls))
	for i, a := range acls {
		out[i] = fmt.Sprint(a)
	}
	slices.Sort(out)
	return out
}

// TestScenario_A5_ConflictOnce: somebody changes an endpoint between plan and
// write. Their change survives byte for byte, what follows from it is written,
// and it is no failure.
func TestScenario_A5_ConflictOnce(t *testing.T) {
	w := a5World(t)
	requireViews(t, w)
	once := false
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if c.Op == "Endpoint/Get" && c.Target == "ep-1" && when == hnsfault.Before && !once {
			once = true
			w.otherWriter("ep-1", 1)
		}
	})
	w.do("apply", "calls ACL/Update=2", "retry 1ms") // the other two pods; no error
	require.Empty(t, w.report.Warnings)
	require.True(t, once)
	requireViews(t, w)
	w.do("apply", "calls ACL/Update=1 SetPolicy/Remove=1")
	require.True(t, w.report.Converged())
	require.Equal(t, state.Conflicts{Before: 1}, w.dp.Stats().Conflicts)
	requireViews(t, w)
	policies := w.policiesOf("ep-1")
	require.True(t, slices.ContainsFunc(policies, func(p hns.EndpointPolicy) bool { return string(p.Settings) == `{"b": 1,  "a":"1"}` }))
	w.do("trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-1 in allow", "trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep-1 in block")

	// The CNI's allow-all went with that change; the pod that ceases to be
	// isolated needs none, and one that stays so has ours.
	require.True(t, slices.ContainsFunc(policies, func(p hns.EndpointPolicy) bool {
		a, err := p.ACL()
		return err == nil && a.ID == "azure-acl-npm-allow-in"
	}))
}

// TestScenario_A5_EveryDerivedView: the conflict does not end, so nothing is
// written. What is kept is the last read all the same: list, others' policies,
// references and numbers; none of it is from before.
func TestScenario_A5_EveryDerivedView(t *testing.T) {
	w := a5World(t)
	changes := 0
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if c.Op == "Endpoint/Get" && c.Target == "ep-1" && when == hnsfault.Before {
			changes++
			w.otherWriter("ep-1", changes)
			if changes > 1 {
				w.do("drop-acl ep-1 azure-acl-npm-block-in")
			}
		}
	})
	w.do("apply", "calls ACL/Update=2", "apply", "calls")
	require.Equal(t, 2, changes)
	require.Equal(t, 1, w.report.Pending)
	requireViews(t, w)
	w.sim.OnCall(nil)
	w.settle()
	requireViews(t, w)
	w.do("trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-1 in allow", "trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep-1 in block")
}

// TestScenario_A5_AfterTheWrite: somebody takes our policy away between our write
// and the read after it. Nobody waits for the reconciler, and it counts as drift.
func TestScenario_A5_AfterTheWrite(t *testing.T) {
	w := a5World(t)
	once := false
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if c.Op == "ACL/Update" && c.Target == "ep-1" && when == hnsfault.After && !once {
			once = true
			w.otherWriter("ep-1", 1)
		}
	})
	w.do("apply", "calls ACL/Update=3 SetPolicy/Remove=1", "retry 1ms", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-1 in block")
	require.Empty(t, w.report.Warnings)
	requireViews(t, w)
	w.do("apply", "calls ACL/Add=1", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-1 in allow")
	requireViews(t, w)
	stats := w.dp.Stats()
	require.Equal(t, state.Conflicts{After: 1}, stats.Conflicts)
	require.Equal(t, uint64(1), stats.DriftRepaired["acl"])
}

// TestScenario_A5_SwitchedOff: one read before an Update, for what others have
// there, and none for an Add; the policies of others survive all the same.
func TestScenario_A5_SwitchedOff(t *testing.T) {
	w := newWorld(t, func(c *dataplane.Config) { c.Unchecked = true })
	w.do("namespace x", "endpoint ep-1 10.0.0.1", "pod x/w 10.0.0.1 app=web", a5P, "apply", "calls SetPolicy/Add=1 ACL/Add=1")
	require.Equal(t, 1, w.report.Calls["Endpoint/Get"], "when it was found")
	w.do("foreign ep-1 Other {}", a5Q, "delete policy x/p", "apply", "calls SetPolicy/Add=1 ACL/Update=1 SetPolicy/Remove=1")
	require.Equal(t, 1, w.report.Calls["Endpoint/Get"])
	require.True(t, slices.ContainsFunc(w.policiesOf("ep-1"), func(p hns.EndpointPolicy) bool { return p.Type == "Other" }))
	require.Zero(t, w.dp.Stats().Conflicts)
}

// TestScenario_A5_NoBlindWrite: HNS itself says that the endpoint is another
// than what the write was planned from. It is read before it is written again.
func TestScenario_A5_NoBlindWrite(t *testing.T) {
	w := a5World(t)
	w.sim.Inject(hnsfault.Fault{Op: "ACL/Update", Target: "ep-1", Mode: hnsfault.Refuse, Err: hns.ErrConflict})
	read, blind := false, 0
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		switch {
		case c.Target != "ep-1":
		case c.Op == "Endpoint/Get" && when == hnsfault.After:
			read = true
		case isWrite(c.Op) && when == hnsfault.Before:
			if !read {
				blind++
			}
			read = false
		case isWrite(c.Op) && c.Err != nil:
			w.otherWriter("ep-1", 7) // that was why
		}
	})
	_ = w.apply()
	w.settle()
	require.Zero(t, blind, "written without a read")
	requireViews(t, w)
	require.True(t, slices.ContainsFunc(w.policiesOf("ep-1"), func(p hns.EndpointPolicy) bool { return string(p.Settings) == `{"b": 7,  "a":"1"}` }))
	w.do("trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-1 in allow")
}
