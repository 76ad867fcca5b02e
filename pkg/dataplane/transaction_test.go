package dataplane

import (
	"maps"
	"net/netip"
	"testing"
	"time"

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

// TestTransactionTells: what went in can be read, and reading changes nothing.
func TestTransactionTells(t *testing.T) {
	tx := NewTransaction()
	_, said := tx.NodeAddrs()
	require.False(t, said)
	require.Nil(t, tx.Observation())
	obs := &Observation{}
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"}}
	tx.SetNamespace(Namespace{Name: "x"})
	tx.DeleteNamespace("y")
	tx.SetPolicy(np)
	tx.DeletePolicy(policy.Key{Namespace: "x", Name: "q"})
	tx.SetNodeAddrs(ipv4Addrs("10.1.0.5"))
	tx.SetObservation(obs)
	require.Equal(t, map[string]*Namespace{"x": {Name: "x"}, "y": nil}, maps.Collect(tx.Namespaces()))
	require.Equal(t, map[policy.Key]*networkingv1.NetworkPolicy{{Namespace: "x", Name: "p"}: np, {Namespace: "x", Name: "q"}: nil},
		maps.Collect(tx.Policies()))
	require.Same(t, obs, tx.Observation())
	addrs, said := tx.NodeAddrs()
	require.True(t, said)
	require.Equal(t, ipv4Addrs("10.1.0.5"), addrs)
	addrs[0] = netip.Addr{}
	require.Equal(t, ipv4Addrs("10.1.0.5"), *tx.nodeAddrs)
}

// TestTransactionCopiesOrShares: a pod that is set may be changed afterwards; one
// that is shared is in memory once.
func TestTransactionCopiesOrShares(t *testing.T) {
	own := Pod{Namespace: "x", Name: "own", UID: "1", Labels: map[string]string{"app": "a"}, Ports: []PodPort{{Name: "http"}}}
	shared := &Pod{Namespace: "x", Name: "shared", UID: "2", Labels: map[string]string{"app": "a"}}
	tx := NewTransaction()
	tx.SetPod(own)
	tx.SharePod(shared)
	own.Labels["app"], own.Ports[0].Name = "b", "https"
	d := New(Config{Now: time.Now})
	d.core.stage(tx)
	kept := d.core.members.pods[own.Key()]
	require.Equal(t, map[string]string{"app": "a"}, kept.Labels)
	require.Equal(t, "http", kept.Ports[0].Name)
	require.Same(t, shared, d.core.members.pods[shared.Key()].Pod)
}
