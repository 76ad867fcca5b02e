package explain_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// TestIdle: a policy that selects no pod is told, whatever its kind, and one that selects a
// pod of another node is not.
func TestIdle(t *testing.T) {
	const manifests = `
{apiVersion: v1, kind: Node, metadata: {name: n1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}, spec: {nodeName: n2, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: agent, namespace: node, labels: {app: agent}}, spec: {hostNetwork: true, nodeName: n1, containers: [{name: c, image: i}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: far, namespace: shop}, spec: {podSelector: {matchLabels: {app: web}}}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: labels, namespace: shop}, spec: {podSelector: {matchLabels: {app: wbe}}}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: namespace, namespace: shopp}, spec: {podSelector: {}}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: host, namespace: node}, spec: {podSelector: {}}}
---
{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: all}, spec: {tier: Admin, priority: 1, subject: {namespaces: {}}}}
---
{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: none}, spec: {tier: Admin, priority: 2, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: agent}}}}}}
`
	d, _ := snapshotOf(t, "n1", manifests)
	var told []string
	for _, w := range explain.Idle(d, math.MaxInt) {
		require.Equal(t, state.ReasonSelectsNothing, w.Reason)
		told = append(told, w.Kind+" "+w.Object+": "+w.Message)
	}
	require.Equal(t, []string{
		"NetworkPolicy node/host: there is no pod in namespace node, so the policy changes nothing",
		"NetworkPolicy shop/labels: spec.podSelector matches none of the pods of namespace shop, so the policy changes nothing; check its labels",
		"NetworkPolicy shopp/namespace: there is no pod in namespace shopp, so the policy changes nothing; did you mean namespace shop?",
		"ClusterNetworkPolicy none: spec.subject selects no pod, so the policy changes nothing; check its selectors",
	}, told)
}
