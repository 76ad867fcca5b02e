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
)

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
