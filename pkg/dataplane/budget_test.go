package dataplane_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// overWorld is a node with a pod of ordinary size and one that is over its budget.
type overWorld struct {
	t   *testing.T
	sim *hnsfault.Sim
	dp  *dataplane.Dataplane
}

const webAddr, bigAddr, overNode = "10.0.0.1", "10.0.0.2", "10.9.0.1"

func newOverWorld(t *testing.T) overWorld {
	sim := hnsfault.New(hnsfault.Options{})
	w := overWorld{t, sim, dataplane.New(dataplane.Config{Client: sim, Now: func() time.Time { return time.Unix(1_700_000_000, 0) }})}
	for id, addr := range map[string]string{"ep-web": webAddr, "ep-big": bigAddr} {
		require.NoError(t, sim.CreateEndpoint(hnssim.NewEndpoint{ID: id, Addrs: []netip.Addr{mustAddr(addr)}}))
	}
	return w
}

// apply applies a cluster: the two pods, a third one that is over its budget too, and policies.
func (w overWorld) apply(excess string, specs ...string) state.Report {
	tx := dataplane.NewTransaction()
	tx.SetNodeAddrs([]netip.Addr{mustAddr(overNode)})
	tx.SetNamespace(desired.Namespace{Name: "x"})
	tx.SetPod(desired.Pod{Namespace: "x", Name: "web", UID: "1", Addr: mustAddr(webAddr), Local: true, Labels: map[string]string{"app": "web"}})
	tx.SetPod(desired.Pod{Namespace: "x", Name: "big", UID: "2", Addr: mustAddr(bigAddr), Local: true, OverBudget: excess})
	tx.SetPod(desired.Pod{Namespace: "x", Name: "huge", UID: "3", Addr: mustAddr("10.0.0.3"), OverBudget: excess})
	for i, spec := range specs {
		np := &networkingv1.NetworkPolicy{}
		require.NoError(w.t, yaml.UnmarshalStrict([]byte(spec), &np.Spec))
		np.Namespace, np.Name = "x", fmt.Sprint("p", i)
		tx.SetPolicy(np)
	}
	report, err := w.dp.ApplyDataplane(w.t.Context(), tx)
	require.NoError(w.t, err)
	require.Empty(w.t, report.Errors)
	return report
}

func (w overWorld) allows(ep string, dir hns.Direction, src, dst string) bool {
	v, err := w.sim.Trace(ep, dir, hnssim.Packet{Src: mustAddr(src), Dst: mustAddr(dst), Protocol: 6, DstPort: 80})
	require.NoError(w.t, err)
	return v.Allowed
}

// A pod that is over its budget is in no set, not even in those that a pod without
// labels is in; blocks of addresses have it all the same.
func TestPodOverItsBudgetIsNoPeer(t *testing.T) {
	for spec, block := range map[string]bool{
		`{podSelector: {}}`:       false,
		`{namespaceSelector: {}}`: false,
		`{podSelector: {matchExpressions: [{key: evil, operator: DoesNotExist}]}}`:                              false,
		`{podSelector: {matchExpressions: [{key: evil, operator: NotIn, values: [a]}]}}`:                        false,
		`{namespaceSelector: {}, podSelector: {matchExpressions: [{key: evil, operator: NotIn, values: [a]}]}}`: false,
		`{namespaceSelector: {matchExpressions: [{key: evil, operator: DoesNotExist}]}}`:                        false,
		`{ipBlock: {cidr: 10.0.0.0/24}}`: true,
	} {
		t.Run(spec, func(t *testing.T) {
			w := newOverWorld(t)
			on := `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [` + spec + `]}]}`
			w.apply("", on)
			require.True(t, w.allows("ep-web", hns.In, bigAddr, webAddr), "within its budget it is a peer")
			w.apply("300 labels", on)
			require.Equal(t, block, w.allows("ep-web", hns.In, bigAddr, webAddr))
			w.apply("", on)
			require.True(t, w.allows("ep-web", hns.In, bigAddr, webAddr))
		})
	}
}

// A pod that is over its budget is closed in both directions, without any policy and
// whatever policies allow; the node reaches it. It is told once for a namespace, with a
// count.
func TestPodOverItsBudgetIsClosed(t *testing.T) {
	for _, specs := range [][]string{nil, {`{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}`}} {
		w := newOverWorld(t)
		require.Empty(t, w.apply("", specs...).Warnings)
		require.True(t, w.allows("ep-big", hns.In, webAddr, bigAddr) && w.allows("ep-big", hns.Out, bigAddr, "192.0.2.1"))
		report := w.apply("300 labels", specs...)
		require.False(t, w.allows("ep-big", hns.In, webAddr, bigAddr))
		require.False(t, w.allows("ep-big", hns.Out, bigAddr, "192.0.2.1"))
		require.True(t, w.allows("ep-big", hns.In, overNode, bigAddr), "the kubelet's probes")
		require.Equal(t, []state.Warning{{
			Object: "x/big", Kind: "Pod", Reason: state.ReasonOverBudget,
			Message: "it has 300 labels: it is in no set, and closed in both directions; so are 1 more pods of the namespace",
		}}, report.Warnings)
		require.Empty(t, w.apply("", specs...).Warnings)
		require.True(t, w.allows("ep-big", hns.In, webAddr, bigAddr))
	}
}

// A namespace that is over its budget is in no set of a namespaceSelector, whatever
// that asks for; its own pods are peers of its own policies.
func TestNamespaceOverItsBudgetIsNoPeer(t *testing.T) {
	w := newOverWorld(t)
	over := func(excess string) state.Report {
		tx := dataplane.NewTransaction()
		tx.SetNamespace(desired.Namespace{Name: "x", OverBudget: excess})
		report, err := w.dp.ApplyDataplane(t.Context(), tx)
		require.NoError(t, err)
		return report
	}
	w.apply("", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: evil, operator: DoesNotExist}]}}]}]}`)
	require.True(t, w.allows("ep-web", hns.In, bigAddr, webAddr))
	report := over("300 labels")
	require.False(t, w.allows("ep-web", hns.In, bigAddr, webAddr))
	require.Equal(t, []state.Warning{{
		Object: "x", Kind: "Namespace", Reason: state.ReasonOverBudget, Message: "it has 300 labels: no namespaceSelector matches it",
	}}, report.Warnings)
	require.Empty(t, over("").Warnings)
	require.True(t, w.allows("ep-web", hns.In, bigAddr, webAddr))
	over("300 labels")
	w.apply("", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}]}]}`)
	over("300 labels")
	require.True(t, w.allows("ep-web", hns.In, bigAddr, webAddr))
}

// TestPoliciesCloseOnAPod: what the policies of a pod come to is bounded. If it is too much, all of
// them close on the pod, and isolate it.
func TestPoliciesCloseOnAPod(t *testing.T) {
	w := newOverWorld(t)
	w.dp = dataplane.New(dataplane.Config{
		Client: w.sim, Now: func() time.Time { return time.Unix(1_700_000_000, 0) }, Budgets: policy.Budgets{ACLs: 30},
	})
	report := w.apply("", peersOfWeb("a", 20), peersOfWeb("b", 19), `{podSelector: {matchLabels: {app: other}}, ingress: [{}]}`)
	var closed []string
	for _, one := range report.Warnings {
		require.Equal(t, state.ReasonOverBudget, one.Reason)
		closed = append(closed, one.Object)
	}
	require.Equal(t, []string{"x/p0", "x/p1"}, closed)
	i := slices.IndexFunc(w.dp.Dump().Endpoints, func(e state.Endpoint) bool { return e.ID == "ep-web" })
	require.Len(t, w.dp.Dump().Endpoints[i].Applied, 4, "the block, the node and the allow-all pair")
	require.False(t, w.allows("ep-web", hns.In, bigAddr, webAddr))
}

// peersOfWeb returns the spec of a policy of the pod web, with so many peers, and all pods.
func peersOfWeb(key string, n int) string {
	text := `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}`
	for i := range n {
		text += fmt.Sprintf(", {podSelector: {matchLabels: {%s: v%d}}}", key, i)
	}
	return text + "]}]}"
}

// A policy whose peers and ports multiply costs a pod nothing but its isolation.
func TestBytesOfAPod(t *testing.T) {
	var peers, ports []string
	for i := range 1000 {
		peers = append(peers, fmt.Sprintf("{podSelector: {matchLabels: {a: v%d}}}", i))
	}
	for i := range 2500 {
		ports = append(ports, fmt.Sprintf("{port: %d}", 2*i+1))
	}
	w := newOverWorld(t)
	report := w.apply("", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [`+strings.Join(peers, ",")+`], ports: [`+strings.Join(ports, ",")+`]}]}`)
	require.Len(t, report.Warnings, 1)
	require.Contains(t, report.Warnings[0].Message, "MaxACLsPerPod")
	require.False(t, w.allows("ep-web", hns.In, bigAddr, webAddr))
}

// A policy that is over its budget has one warning and counts once, and what the pod
// may is nothing, until it is within again.
func TestPolicyOverItsBudget(t *testing.T) {
	w := newOverWorld(t)
	set := func(np *networkingv1.NetworkPolicy) state.Report {
		tx := dataplane.NewTransaction()
		tx.SetPolicy(np)
		report, err := w.dp.ApplyDataplane(t.Context(), tx)
		require.NoError(t, err)
		return report
	}
	w.apply("")
	np := &networkingv1.NetworkPolicy{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(`{podSelector: {matchLabels: {app: web}}, ingress: [{}]}`), &np.Spec))
	np.Namespace, np.Name = "x", "p"
	require.Empty(t, set(np).Warnings)
	require.True(t, w.allows("ep-web", hns.In, bigAddr, webAddr))
	closed := np.DeepCopy()
	closed.Spec = policy.Close(&np.Spec, "it is too long")
	require.Equal(t, []state.Warning{{
		Object: "x/p", Kind: "NetworkPolicy", Reason: state.ReasonOverBudget,
		Message: "spec: it is too long; the policy isolates and allows nothing. Make it smaller, or raise that key of the configuration",
	}}, set(closed).Warnings)
	require.False(t, w.allows("ep-web", hns.In, bigAddr, webAddr))
	require.True(t, w.allows("ep-web", hns.Out, webAddr, bigAddr), "it was about ingress alone")
	require.Empty(t, set(np).Warnings)
	require.True(t, w.allows("ep-web", hns.In, bigAddr, webAddr))
}

// TestClosedOnAPodWhileInDoubt: a policy that had no room on a pod is deleted while the
// pod's address is in doubt and nothing of it is rendered. Nobody warns of it any more.
func TestClosedOnAPodWhileInDoubt(t *testing.T) {
	sim := hnsfault.New(hnsfault.Options{})
	dp := dataplane.New(dataplane.Config{Client: sim, Now: func() time.Time { return time.Unix(1_700_000_000, 0) }, Budgets: policy.Budgets{ACLs: 2}})
	require.NoError(t, sim.CreateEndpoint(hnssim.NewEndpoint{ID: "ep", Addrs: []netip.Addr{mustAddr(webAddr)}}))
	spec := map[string]string{
		"iso": `{podSelector: {}}`,
		"big": `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: a}}}, {podSelector: {matchLabels: {a: b}}}, {podSelector: {matchLabels: {a: c}}}]}]}`,
	}
	warnings := func(set func(tx *dataplane.Transaction)) string {
		tx := dataplane.NewTransaction()
		set(tx)
		report, err := dp.ApplyDataplane(t.Context(), tx)
		require.NoError(t, err)
		return fmt.Sprint(report.Warnings)
	}
	add := func(tx *dataplane.Transaction, ns, name string) {
		np := &networkingv1.NetworkPolicy{}
		np.Namespace, np.Name = ns, name
		require.NoError(t, yaml.UnmarshalStrict([]byte(spec[name]), &np.Spec))
		tx.SetPolicy(np)
	}
	pod := func(tx *dataplane.Transaction, ns string) {
		tx.SetPod(desired.Pod{Namespace: ns, Name: "p", UID: types.UID(ns), Addr: mustAddr(webAddr), Local: true})
	}
	require.Contains(t, warnings(func(tx *dataplane.Transaction) {
		pod(tx, "x")
		add(tx, "x", "big")
		add(tx, "y", "iso")
	}), "x/big")
	warnings(func(tx *dataplane.Transaction) {
		pod(tx, "y")
		add(tx, "x", "iso")
	})
	require.NotContains(t, warnings(func(tx *dataplane.Transaction) {
		tx.DeletePolicy(policy.Key{Namespace: "x", Name: "big"})
	}), "x/big")
}

// TestRoomOnAPodAgain: a policy that closed for the budget of a pod is in force again as soon as it
// fits: when another policy is deleted, becomes smaller, or no longer selects the pod. The same
// holds if a ClusterNetworkPolicy used up the budget.
func TestRoomOnAPodAgain(t *testing.T) {
	small := `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.9/32}}]}]}`
	other := `{podSelector: {matchLabels: {app: no}}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.9/32}}]}]}`
	set := func(w overWorld, spec string) func(*dataplane.Transaction) {
		return func(tx *dataplane.Transaction) {
			np := &networkingv1.NetworkPolicy{}
			require.NoError(w.t, yaml.UnmarshalStrict([]byte(spec), &np.Spec))
			np.Namespace, np.Name = "x", "p0"
			tx.SetPolicy(np)
		}
	}
	// Of 30 ACLs the first policy takes 20, a little less than the second. Its peers are no pods.
	first := strings.Replace(peersOfWeb("a", 19), "{podSelector: {}}, ", "", 1)
	for name, makeRoom := range map[string]func(overWorld) func(*dataplane.Transaction){
		"deleted": func(overWorld) func(*dataplane.Transaction) {
			return func(tx *dataplane.Transaction) { tx.DeletePolicy(policy.Key{Namespace: "x", Name: "p0"}) }
		},
		"smaller":         func(w overWorld) func(*dataplane.Transaction) { return set(w, small) },
		"of another pod":  func(w overWorld) func(*dataplane.Transaction) { return set(w, other) },
		"tiered, deleted": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newOverWorld(t)
			w.dp = dataplane.New(dataplane.Config{
				Client: w.sim, Now: func() time.Time { return time.Unix(1_700_000_000, 0) }, Budgets: policy.Budgets{ACLs: 30},
			})
			apply := func(change func(*dataplane.Transaction)) state.Report {
				tx := dataplane.NewTransaction()
				change(tx)
				report, err := w.dp.ApplyDataplane(t.Context(), tx)
				require.NoError(t, err)
				require.Empty(t, report.Errors)
				return report
			}
			isClosed := func(r state.Report) bool {
				return slices.ContainsFunc(r.Warnings, func(x state.Warning) bool { return x.Object == "x/p1" && x.Reason == state.ReasonOverBudget })
			}
			var report state.Report
			if makeRoom == nil {
				require.Empty(t, w.apply("", other, peersOfWeb("b", 19)).Warnings)
				require.True(t, w.allows("ep-web", hns.In, bigAddr, webAddr))
				cnp := &v1alpha2.ClusterNetworkPolicy{}
				text := `{tier: Admin, priority: 1, subject: {pods: {podSelector: {matchLabels: {app: web}}}}, ingress: [`
				for i := range 12 {
					text += fmt.Sprintf("{action: Deny, from: [{pods: {podSelector: {matchLabels: {c: v%d}}}}]}, {action: Accept, from: [{pods: {podSelector: {matchLabels: {d: v%d}}}}]}, ", i, i)
				}
				require.NoError(t, yaml.Unmarshal([]byte(text+"]}"), &cnp.Spec))
				cnp.Name, cnp.UID = "c", "c"
				report = apply(func(tx *dataplane.Transaction) { tx.SetClusterPolicy(cnp) })
				makeRoom = func(overWorld) func(*dataplane.Transaction) {
					return func(tx *dataplane.Transaction) { tx.DeleteClusterPolicy("c") }
				}
			} else {
				report = w.apply("", first, peersOfWeb("b", 19))
			}
			require.True(t, isClosed(report), "%v", report.Warnings)
			require.False(t, w.allows("ep-web", hns.In, bigAddr, webAddr))

			report = apply(makeRoom(w))
			require.False(t, isClosed(report))
			require.True(t, w.allows("ep-web", hns.In, bigAddr, webAddr), "there is room again")
			require.False(t, w.allows("ep-web", hns.In, "192.0.2.1", webAddr))
		})
	}
}
