package desired

import (
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
)

// newTestState returns a State of an empty cluster with the usual budgets.
func newTestState() *State {
	return New(Settings{Budgets: policy.DefaultBudgets()}, ipsets.NewCache(), progress.New(time.Now))
}

// denyAll is a policy that selects every pod of a namespace, and allows nothing.
func denyAll(namespace, name string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}
