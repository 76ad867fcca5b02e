package dataplane

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/policy"
)

// TestTransaction: it holds the last state of each object, and counts objects.
func TestTransaction(t *testing.T) {
	tx := NewTransaction()
	require.Zero(t, tx.Len())
	web := Pod{Namespace: "x", Name: "web", UID: "1"}
	tx.SetPod(web)
	tx.DeletePod(web.Key())
	web.UID = "2"
	tx.SetPod(web)
	tx.SetPod(Pod{Namespace: "x", Name: "gone"})
	tx.DeletePod(PodKey{Namespace: "x", Name: "gone"})
	require.Empty(t, cmp.Diff(
		map[PodKey]*Pod{{Namespace: "x", Name: "web"}: &web, {Namespace: "x", Name: "gone"}: nil},
		maps.Collect(tx.Pods()), cmpopts.EquateComparable(netip.Addr{})))

	tx.SetNamespace(Namespace{Name: "x"})
	tx.DeleteNamespace("x")
	tx.SetPolicy(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"}})
	tx.DeletePolicy(policy.Key{Namespace: "x", Name: "p"})
	tx.SetObservation(&Observation{})
	require.Equal(t, 4, tx.Len(), "an observation is no object")

	addrs := ipv4Addrs("10.1.0.6", "10.1.0.5", "10.1.0.6")
	tx.SetNodeAddrs(addrs)
	require.Equal(t, 5, tx.Len())
	require.Equal(t, ipv4Addrs("10.1.0.5", "10.1.0.6"), *tx.nodeAddrs)
	require.Equal(t, ipv4Addrs("10.1.0.6", "10.1.0.5", "10.1.0.6"), addrs, "the caller's list is not sorted")
}
