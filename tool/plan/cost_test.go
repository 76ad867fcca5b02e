package plan_test

import (
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/tool/plan"
)

// blocks is a policy of so many networks, each of which may come in by a port of its own.
func blocks(n int) *networkingv1.NetworkPolicy {
	np := deny("x")
	for i := range n {
		port := intstr.FromInt(1000 + i)
		np.Spec.Ingress = append(np.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
			From:  []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: fmt.Sprintf("20.%d.%d.0/24", i>>8, i&255)}}},
			Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
		})
	}
	return np
}

// TestManyBlocks counts bytes, which stand for the questions: four times the networks and
// ports of a policy are about four times the questions, not sixteen times, each of which goes
// through four times the rules.
func TestManyBlocks(t *testing.T) {
	w := large(4, 2)
	w.Policies = nil
	bytes := func(n int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := plan.New(t.Context(), w, setting(w, []*networkingv1.NetworkPolicy{blocks(n)}, nil))
		require.NoError(t, err)
		require.NoError(t, got.WriteText(io.Discard, true))
		runtime.ReadMemStats(&after)
		require.Len(t, got.Addresses, n+1)
		require.Len(t, got.Outside, 2*(n+1)) // two workloads
		return after.TotalAlloc - before.TotalAlloc
	}
	bytes(10) // what is made once
	few, many := bytes(50), bytes(200)
	t.Logf("50 networks: %d bytes, 200: %d", few, many)
	require.Less(t, many, 6*few)
}
