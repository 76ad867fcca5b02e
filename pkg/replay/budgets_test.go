package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/replay"
)

// TestBudgets: what an agent closed by its own budgets is closed in the replay too, and nothing
// parts.
func TestBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStageOf(t, 0, policy.Budgets{ACLs: 1})
		s.begin()
		s.apply(allow("more", "job"))
		require.NotEmpty(t, s.dp.Dump().Warnings, "nothing is over the budget")
		result := s.replay()
		require.Empty(t, result.Stopped)
		for _, step := range result.Steps {
			require.Empty(t, step.Findings)
		}
		require.Empty(t, result.Final)
	})
}

// TestBudgetsAreNotRaised: a recording may be anybody's, so a budget in it that is larger than
// the default has no effect. The replay closes what is over the default, and says why.
func TestBudgetsAreNotRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := policy.DefaultBudgets().ACLs
		s := newStageOf(t, 0, policy.Budgets{ACLs: 10 * most, ACLBytes: 1 << 30})
		s.begin()
		s.apply(func(tx *dataplane.Transaction) {
			p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "large"}}
			p.Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
			for i := range most + 1 {
				port := intstr.FromInt(1 + 2*i)
				p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
					From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}}},
					Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
				})
			}
			tx.SetPolicy(p)
		})
		require.Empty(t, s.dp.Dump().Warnings, "the agent's own budget has room")
		result := s.replay()
		require.NotEmpty(t, result.Steps[0].Findings)
		require.Equal(t, replay.Note, result.Steps[0].Findings[0].Kind)
		require.Contains(t, result.Steps[0].Findings[0].Text, "larger budgets than the defaults")
		closed := slices.ContainsFunc(result.Steps[1].Findings, func(f replay.Finding) bool {
			return f.Kind == replay.Build && strings.HasPrefix(f.Text, "this build does not ask for")
		})
		require.True(t, closed, "the replay writes no rule of a policy that is over the default")
	})
}
