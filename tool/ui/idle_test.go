package ui

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/state"
)

// TestPoliciesThatSelectNothing: the list and the page of a policy say that it selects no pod of the
// cluster. One of pods of other nodes does.
func TestPoliciesThatSelectNothing(t *testing.T) {
	d := behind()
	for name, app := range map[string]string{"x/typo": "wbe", "y/elsewhere": ""} {
		spec := networkingv1.NetworkPolicySpec{}
		if app != "" {
			spec.PodSelector.MatchLabels = map[string]string{"app": app}
		}
		d.Policies = append(d.Policies, state.PolicyDump{Policy: name, Selected: []string{}, Spec: &spec})
	}
	d.Policies[0].Spec = &networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	h := handler(d)
	list := get(t, h, "/api/policies")
	require.Equal(t, http.StatusOK, list.Code)
	require.Contains(t, list.Body.String(), `"policy":"x/typo","kind":"NetworkPolicy","selected":0,"state":{"word":"selects no pod"`)
	require.Contains(t, list.Body.String(), `"policy":"y/elsewhere","kind":"NetworkPolicy","selected":0,"state":{"word":"idle here"`)
	require.Contains(t, get(t, h, "/api/policies/x/typo").Body.String(), `"word":"selects no pod"`)
	for _, other := range []string{"x/web", "y/elsewhere"} {
		require.NotContains(t, get(t, h, "/api/policies/"+other).Body.String(), `"word":"selects no pod"`)
	}
}
