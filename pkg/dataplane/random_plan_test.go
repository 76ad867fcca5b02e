package dataplane_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestRandomPlan: in random worlds, also after failures, the plan of a dry run is what a
// new agent asks of HNS, request by request.
func TestRandomPlan(t *testing.T) {
	compared, writes := 0, 0
	t.Run("walks", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			w := newWalker(rt, t.Context(), dataplane.Config{
				MaxBatchedACLs: rapid.SampledFrom([]int{30, 2}).Draw(rt, "batch"),
				MaxRepairs:     rapid.SampledFrom([]int{0, 1}).Draw(rt, "repairs"),
			}, walkSim(), newCluster())
			hasty := rapid.Bool().Draw(rt, "hasty")
			w.faulty = rapid.Bool().Draw(rt, "faults")
			all := w.actions()
			events := func(t *rapid.T) *dataplane.Transaction {
				tx := dataplane.NewTransaction()
				for range rapid.IntRange(0, 4).Draw(t, "objects") {
					w.event(t, tx)
				}
				return tx
			}
			actions := map[string]func(*rapid.T){"time": all["time"], "endpoint": w.drawAttached, "go on": func(t *rapid.T) {
				w.hasty = hasty
				w.apply(events(t))
			}}
			if w.faulty {
				actions["fault"] = all["fault"]
			}
			actions["plan"] = func(t *rapid.T) {
				events(t)
				n, compares := w.foresee()
				writes += n
				compared += compares
			}
			rt.Repeat(actions)
		})
	})
	t.Logf("%d transactions with %d writes were as planned", compared, writes)
	if effort.Now() != effort.Quick { // a change may draw too few to see a write
		require.Greater(t, writes, compared/10)
	}
}

// walkNetns are the HNS namespaces of endpoints in random worlds.
var walkNetns = []string{"", "", "n1", "N2"}

// walkSandboxes are what the CNI tells of pods in random worlds.
var walkSandboxes = []state.Sandbox{{}, {}, {ID: "s1"}, {ID: "s2", Netns: "n2"}}

// drawAttached makes an endpoint, or deletes one. One that is not attached is
// enumerated or not as HNS likes, which no plan knows.
func (w *walker) drawAttached(t *rapid.T) {
	if eps := w.sim.Endpoints(); len(eps) > 0 && rapid.Bool().Draw(t, "delete") {
		ep := rapid.SampledFrom(eps).Draw(t, "endpoint")
		w.note("delete %s", ep.ID)
		require.NoError(w.t, w.sim.DeleteEndpoint(ep.ID))
		return
	}
	w.ids++
	id, addrs := fmt.Sprint("ep-", w.ids), []netip.Addr{netip.MustParseAddr(walkAddrs[rapid.IntRange(0, walkEndpoints-1).Draw(t, "address")])}
	if rapid.Bool().Draw(t, "dual stack") {
		addrs = append(addrs, netip.MustParseAddr("fd00::1"))
	}
	w.base[id] = hnssim.DefaultForeign()
	w.note("endpoint %s %v", id, addrs)
	require.NoError(w.t, w.sim.CreateEndpoint(hnssim.NewEndpoint{ID: id, Addrs: addrs, Netns: rapid.SampledFrom(walkNetns).Draw(t, "netns")}))
}

// foresee begins a new agent and compares its first transaction with the plan of a dry run
// before it, if no fault comes in between: it returns how many writes there were, and how many
// transactions were compared.
func (w *walker) foresee() (writes, compared int) {
	w.hasty = false // a plan leaves nothing to the next transaction
	knows := len(w.sim.UnusedFaults()) == 0
	cfg := w.cfg
	cfg.DryRun = true
	dry := dataplane.New(cfg)
	_, err := dry.ApplyDataplane(w.ctx, w.cluster.all())
	require.NoError(w.t, err)
	plan, err := dry.Plan()
	require.NoError(w.t, err)
	before := len(w.sim.Calls())
	w.dp = dataplane.New(w.cfg)
	w.apply(w.cluster.all())
	calls := w.sim.Calls()[before:]
	if !knows || slices.ContainsFunc(calls, func(c hnsfault.Call) bool { return c.Err != nil && !hns.ReadsOnly(c.Op) }) {
		return 0, 0 // the simulator refuses what is named by an endpoint that is not attached
	}
	for _, r := range plan.Requests {
		writes += count(!hns.ReadsOnly(r.Op))
	}
	if diff := cmp.Diff(inTexts(plan.Requests), callTexts(calls)); diff != "" {
		w.fail("the plan is not what runs (-plan +calls):\n%s", diff)
	}
	return writes, 1
}

// TestPlanIsWhatRuns: the plan of a new policy, an edit, a label and a deletion, on a node
// with both families of addresses, is what a new agent asks then.
func TestPlanIsWhatRuns(t *testing.T) {
	w := newWorld(t, policyText("p", bugWeb)+policyText("q", `{podSelector: {}, ingress: [{ports: [{port: 81}]}]}`))
	require.NoError(t, w.sim.CreateEndpoint(hnssim.NewEndpoint{ID: "ep", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}}))
	objects := []string{"dataplane", "namespace x", "pod x/w 10.0.0.1 app=web"}
	for _, change := range []string{"policy p", "policy q", "pod x/api 10.0.1.1 app=api remote", "delete policy x/p", "delete policy x/q"} {
		objects = append(objects, change)
		w.do(objects...)
		dry := dataplane.New(dataplane.Config{Client: w.sim, Node: "n1", Now: w.clock, MaxBatchedACLs: 30, DryRun: true})
		_, err := dry.ApplyDataplane(t.Context(), w.tx)
		require.NoError(t, err)
		plan, err := dry.Plan()
		require.NoError(t, err)
		w.do(objects...)
		w.sim.ResetCalls()
		w.do("apply")
		require.Empty(t, cmp.Diff(inTexts(plan.Requests), callTexts(w.sim.Calls())), change)
		require.Equal(t, plan.Summary(), w.report.Plan, change)
		require.NotEmpty(t, w.report.Plan, change)
	}
}

func inTexts(requests []hns.Request) (texts []string) {
	for _, r := range requests {
		texts = append(texts, inText(r))
	}
	return texts
}

func callTexts(calls []hnsfault.Call) (texts []string) {
	for _, c := range calls {
		texts = append(texts, inText(hns.Request{Op: c.Op, Endpoint: c.Target, Sets: c.Sets, ACLs: c.ACLs, Policies: c.Policies}))
	}
	return texts
}

// inText is a request in one line, with our rules alone: the others' go back as they
// were read.
func inText(r hns.Request) string {
	var b strings.Builder
	b.WriteString(r.Op)
	if r.Op != hns.OpNetworkGet && r.Op != hns.OpEndpointIDs && r.Op != hns.OpEndpointNew && r.Verb() == "" {
		b.WriteString(" " + r.Endpoint)
	}
	for _, s := range r.Sets {
		values := slices.Sorted(slices.Values(s.Values))
		fmt.Fprintf(&b, " %s=%s%v", s.ID, s.Name, values)
	}
	acls := r.ACLs
	if r.Op == hns.OpACLUpdate {
		acls = nil
		for _, p := range r.Policies {
			if a, err := p.ACL(); err == nil && a.Ours() {
				acls = append(acls, a)
			}
		}
	}
	for _, a := range acls {
		fmt.Fprintf(&b, " [%s]", acl.RuleText(a.Canonical()))
	}
	return b.String()
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
