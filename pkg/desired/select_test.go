package desired

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/policy"
)

// TestSelectionModel: a policy's event changes its own place among those that
// select a pod, and that ends as if all had been asked.
func TestSelectionModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newTestState()
		app := rapid.SampledFrom([]string{"a", "b", "c"})
		name := rapid.Map(rapid.IntRange(0, 3), func(i int) string { return fmt.Sprint("p", i) })
		t.Repeat(map[string]func(*rapid.T){
			"pod": func(t *rapid.T) {
				tx, n := NewObjects(), rapid.IntRange(0, 2).Draw(t, "pod")
				tx.SharePod(&Pod{
					Namespace: "x", Name: fmt.Sprint(n), UID: types.UID(fmt.Sprint(n)), Local: true,
					Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), Labels: map[string]string{"app": app.Draw(t, "app")},
				})
				d.Stage(&tx, time.Time{})
			},
			"policy": func(t *rapid.T) {
				tx := NewObjects()
				tx.SetPolicy(&networkingv1.NetworkPolicy{
					ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name.Draw(t, "name")},
					Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{
						MatchLabels: map[string]string{"app": app.Draw(t, "app")},
					}},
				})
				d.Stage(&tx, time.Time{})
			},
			"delete": func(t *rapid.T) {
				tx := NewObjects()
				tx.DeletePolicy(policy.Key{Namespace: "x", Name: name.Draw(t, "name")})
				d.Stage(&tx, time.Time{})
			},
			"": func(t *rapid.T) {
				for _, p := range d.local {
					kept := slices.Clone(p.selected)
					d.findSelecting(p)
					require.True(t, slices.Equal(p.selected, kept))
				}
			},
		})
	})
}
