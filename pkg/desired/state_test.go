package desired

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// newTestState returns a State of an empty cluster with the usual budgets.
func newTestState() *State {
	return New(Settings{Budgets: policy.DefaultBudgets()}, ipsets.NewCache(), func(string, string, string, string) {})
}

// TestObjectsAreCopiedOrShared: a pod that is set may be changed afterwards; one
// that is shared is in memory once.
func TestObjectsAreCopiedOrShared(t *testing.T) {
	own := Pod{Namespace: "x", Name: "own", UID: "1", Labels: map[string]string{"app": "a"}, Ports: []PodPort{{Name: "http"}}}
	shared := &Pod{Namespace: "x", Name: "shared", UID: "2", Labels: map[string]string{"app": "a"}}
	o := NewObjects()
	o.SetPod(own)
	o.SharePod(shared)
	own.Labels["app"], own.Ports[0].Name = "b", "https"
	d := newTestState()
	d.Stage(&o, time.Time{})
	kept := d.Pod(own.Key())
	require.Equal(t, map[string]string{"app": "a"}, kept.Labels)
	require.Equal(t, "http", kept.Ports[0].Name)
	require.Same(t, shared, d.Pod(shared.Key()).Pod)
}

// TestStagingAllocates as much for a pod in a large cluster as in a small one.
func TestStagingAllocates(t *testing.T) {
	staged := func(workloads int) float64 {
		d, tx := newTestState(), NewObjects()
		pod := func(n int, labels map[string]string) *Pod {
			return &Pod{
				Namespace: fmt.Sprint("ns-", n%10), Name: fmt.Sprint("p", n), UID: types.UID(fmt.Sprint(n)),
				Addr: netip.AddrFrom4([4]byte{10, 0, byte(n / 256), byte(n)}), Labels: labels,
			}
		}
		labels := map[string]string{"app": "a", "hash": "1"}
		here := pod(0, nil) // the policies are active, by it
		here.Namespace, here.Local = "x", true
		tx.SharePod(here)
		tx.SharePod(pod(1, labels))
		tx.SharePod(pod(21, labels))
		tx.SharePod(pod(11, map[string]string{"app": "b"}))
		for n := range workloads {
			app := fmt.Sprint("app-", n)
			tx.SharePod(pod(100+n, map[string]string{"app": app}))
			tx.SetPolicy(&networkingv1.NetworkPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: app},
				Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
					{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
					{PodSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
						{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{app}},
					}}, NamespaceSelector: &metav1.LabelSelector{}},
				}}}},
			})
		}
		d.Stage(&tx, time.Time{})
		there, back := NewObjects(), NewObjects()
		there.SharePod(pod(1, map[string]string{"app": "b"}))
		back.SharePod(pod(1, labels))
		return testing.AllocsPerRun(20, func() {
			d.Stage(&there, time.Time{})
			d.Stage(&back, time.Time{})
			d.TakeEffects()
		})
	}
	small, large := staged(5), staged(300)
	t.Logf("%.0f allocations among 5 workloads and policies, %.0f among 300", small, large)
	require.LessOrEqual(t, large, small+2)
}

// TestACLsAreShared: endpoints have the ACLs of a policy in common, unless a
// port of a pod has a part in them.
func TestACLsAreShared(t *testing.T) {
	d, tx := newTestState(), NewObjects()
	for i, port := range []intstr.IntOrString{intstr.FromInt32(80), intstr.FromString("http")} {
		tx.SetPolicy(&networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: fmt.Sprint("p", i)},
			Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
			}}},
		})
	}
	addrs := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	for i, addr := range addrs {
		tx.SharePod(&Pod{
			Namespace: "x", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Addr: addr, Local: true,
			Ports: []PodPort{{"http", "TCP", uint16(8080 + i)}},
		})
	}
	d.Stage(&tx, time.Time{})
	acls := func(addr netip.Addr) []*acl.SourcedACL { return d.ListOf(d.Home([]netip.Addr{addr}), false).ACLs }
	one, two := acls(addrs[0]), acls(addrs[1])
	require.Len(t, one, 3)
	require.Len(t, two, 3)
	require.Same(t, one[0], two[0], "a number")
	require.Equal(t, "8080", one[1].LocalPorts)
	require.Equal(t, "8081", two[1].LocalPorts, "a name")
	require.Equal(t, "3000 block in azure-acl-npm-block-in", acl.RuleText(one[2].ACL))
}

// TestClosedPodRendersToTheLimit: of the policies of a pod that is over the limit of ACLs only those up to
// the limit are rendered, so that a tenant with many of them delays nobody.
func TestClosedPodRendersToTheLimit(t *testing.T) {
	rendered := 0
	budgets := policy.DefaultBudgets()
	budgets.ACLs = 30
	d := New(Settings{Budgets: budgets}, ipsets.NewCache(), func(work, _, _, _ string) {
		if work == "rendering" {
			rendered++
		}
	})
	tx, addr := NewObjects(), netip.MustParseAddr("10.0.0.1")
	tx.SetPod(Pod{Namespace: "x", Name: "web", UID: "1", Addr: addr, Local: true})
	for n := range 40 {
		spec := networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}}}
		for peer := range 20 {
			selector := metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(n, "-", peer)}}
			spec.Ingress[0].From = append(spec.Ingress[0].From, networkingv1.NetworkPolicyPeer{PodSelector: &selector})
		}
		tx.SetPolicy(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: fmt.Sprint("p", n)}, Spec: spec})
	}
	d.Stage(&tx, time.Time{})
	list := d.ListOf(d.Home([]netip.Addr{addr}), false)
	require.Len(t, list.ACLs, 1, "the block")
	require.Equal(t, 2, rendered)
}
