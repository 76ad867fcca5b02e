package metrics

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// agent is a dataplane that is measured, on a simulated node.
type agent struct {
	t   *testing.T
	sim *hnsfault.Sim
	dp  *dataplane.Dataplane
	m   *Metrics
	now time.Time
}

func newAgent(t *testing.T) *agent {
	a := &agent{t: t, sim: hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()}), now: time.Unix(1_800_000_000, 0)}
	o := quiet()
	o.Stats = func() state.Stats { return a.dp.Stats() }
	a.m = New(o)
	a.dp = dataplane.New(dataplane.Config{Client: a.m.Client(a.sim), Now: func() time.Time { return a.now }})
	return a
}

// apply hands a transaction over and does what the worker does after it.
func (a *agent) apply(tx *dataplane.Transaction) state.Report {
	report, err := a.dp.ApplyDataplane(a.t.Context(), tx)
	require.NoError(a.t, err)
	a.m.Applied(controllers.Applied{Report: report})
	return report
}

// wantTruth holds what is shown of the state against what is in HNS.
func (a *agent) wantTruth(policies, pods float64) {
	a.t.Helper()
	want := map[string]float64{
		"npm_num_policies": policies, "npm_pods_watched": pods, "npm_num_ipsets": 0, "npm_num_ipset_entries": 0,
		`npm_num_cluster_policies{tier="Admin"}`: 0, `npm_num_cluster_policies{tier="Baseline"}`: 0,
	}
	for _, set := range a.sim.Sets() {
		want["npm_num_ipsets"]++
		want["npm_num_ipset_entries"] += float64(len(set.Values))
		want[fmt.Sprintf("npm_ipset_counts{set_hash=%q,set_name=%q}", set.ID, set.Name)] = float64(len(set.Values))
	}
	want["npm_num_iptables_rules"] = float64(strings.Count(a.sim.Dump(), "\n  acl "))
	require.Empty(a.t, cmp.Diff(want, read(a.t, a.m.cluster)))

	node := read(a.t, a.m.node)
	for op, n := range a.sim.Counts() {
		require.InDelta(a.t, n, node[fmt.Sprintf("npm_hns_calls_total{operation=%q}", op)], 0, op)
	}
}

func localPod(i int) desired.Pod {
	return desired.Pod{
		Namespace: "x", Name: fmt.Sprintf("web-%d", i), UID: types.UID(fmt.Sprint(i)), Labels: map[string]string{"app": "web"},
		Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), Local: true,
	}
}

// TestOfDataplane: rules and sets come, somebody else takes some away, they are
// repaired, and everything goes; the numbers are always those of HNS.
func TestOfDataplane(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	for i := range 3 {
		require.NoError(t, a.sim.CreateEndpoint(hnssim.NewEndpoint{ID: fmt.Sprintf("ep-%d", i), Addrs: []netip.Addr{localPod(i).Addr}}))
	}
	tx := dataplane.NewTransaction()
	tx.SetNodeAddrs([]netip.Addr{netip.MustParseAddr("10.9.0.1")})
	tx.SetNamespace(desired.Namespace{Name: "x", Labels: map[string]string{"team": "a"}})
	tx.SetPolicy(&networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"},
		Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
				{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
				{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}},
			}}},
		},
	})
	for i := range 4 { // one has no endpoint yet
		tx.SetPod(localPod(i))
	}
	require.Equal(t, 1, a.apply(tx).Pending)
	a.wantTruth(1, 4)
	node := read(t, a.m.node)
	require.Positive(t, node[`npm_programmed_sets{type="NESTEDIPSET"}`])
	require.InDelta(t, 1, node["npm_pending_pod_updates"], 0)
	require.InDelta(t, 4, node[`npm_controller_pod_exec_time_count{had_error="false",operation="create"}`], 0)
	require.InDelta(t, 1, node[`npm_add_policy_exec_time_count{had_error="false"}`], 0)
	require.Positive(t, read(t, a.m.cluster)["npm_num_iptables_rules"])

	// Somebody else clears one endpoint; the simulator counts that call too.
	require.NoError(t, a.m.Client(a.sim).ReplacePolicies(t.Context(), "ep-1", nil))
	obs, err := a.dp.Observe(t.Context(), dataplane.Everything())
	require.NoError(t, err)
	tx = dataplane.NewTransaction()
	tx.SetObservation(obs)
	a.sim.Inject(hnsfault.Fault{Op: "ACL/Add", Target: "ep-1", Err: hns.ErrUnavailable})
	report := a.apply(tx)
	require.Empty(t, a.sim.UnusedFaults())
	node = read(t, a.m.node)
	require.InDelta(t, 1, node[`npm_drift_found_total{kind="acl"}`], 0)
	require.InDelta(t, 0, node[`npm_drift_repaired_total{kind="acl"}`], 0, "its repair failed")
	require.InDelta(t, 1, node[`npm_warnings{reason="HNSUnavailable"}`], 0)
	require.InDelta(t, 2, node["npm_pending_pod_updates"], 0)
	a.now = a.now.Add(report.RetryAfter)
	node = read(t, a.m.node)
	require.InDelta(t, report.RetryAfter.Seconds(), node["npm_oldest_pending_pod_update_seconds"], 0, "web-3 has waited as long")
	a.apply(dataplane.NewTransaction())
	node = read(t, a.m.node)
	require.InDelta(t, 1, node[`npm_drift_repaired_total{kind="acl"}`], 0)
	require.InDelta(t, 0, node[`npm_warnings{reason="HNSUnavailable"}`], 0)
	a.wantTruth(1, 4)

	tx = dataplane.NewTransaction()
	for i := range 4 {
		tx.DeletePod(localPod(i).Key())
	}
	tx.DeletePolicy(policy.Key{Namespace: "x", Name: "p"})
	a.apply(tx)
	a.wantTruth(0, 0)
	require.InDelta(t, 4, read(t, a.m.node)[`npm_controller_pod_exec_time_count{had_error="false",operation="delete"}`], 0)
}
