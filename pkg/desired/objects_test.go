package desired

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

// TestObjects: it holds the last state of each object, and counts objects.
func TestObjects(t *testing.T) {
	o := NewObjects()
	require.Zero(t, o.Len())
	web := Pod{Namespace: "x", Name: "web", UID: "1"}
	o.SetPod(web)
	o.DeletePod(web.Key())
	web.UID = "2"
	o.SetPod(web)
	o.SetPod(Pod{Namespace: "x", Name: "gone"})
	o.DeletePod(PodKey{Namespace: "x", Name: "gone"})
	require.Empty(t, cmp.Diff(
		map[PodKey]*Pod{{Namespace: "x", Name: "web"}: &web, {Namespace: "x", Name: "gone"}: nil},
		maps.Collect(o.Pods()), cmpopts.EquateComparable(netip.Addr{})))

	o.SetNamespace(Namespace{Name: "x"})
	o.DeleteNamespace("x")
	o.SetPolicy(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"}})
	o.DeletePolicy(policy.Key{Namespace: "x", Name: "p"})
	require.Equal(t, 4, o.Len())

	addrs := ipv4Addrs("10.1.0.6", "10.1.0.5", "10.1.0.6")
	o.SetNodeAddrs(addrs)
	require.Equal(t, 5, o.Len())
	require.Equal(t, ipv4Addrs("10.1.0.5", "10.1.0.6"), *o.nodeAddrs)
	require.Equal(t, ipv4Addrs("10.1.0.6", "10.1.0.5", "10.1.0.6"), addrs, "the caller's list is not sorted")
}

// TestObjectsTell: what went in can be read, and reading changes nothing.
func TestObjectsTell(t *testing.T) {
	o := NewObjects()
	_, said := o.NodeAddrs()
	require.False(t, said)
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"}}
	o.SetNamespace(Namespace{Name: "x"})
	o.DeleteNamespace("y")
	o.SetPolicy(np)
	o.DeletePolicy(policy.Key{Namespace: "x", Name: "q"})
	o.SetNodeAddrs(ipv4Addrs("10.1.0.5"))
	require.Equal(t, map[string]*Namespace{"x": {Name: "x"}, "y": nil}, maps.Collect(o.Namespaces()))
	require.Equal(t, map[policy.Key]*networkingv1.NetworkPolicy{{Namespace: "x", Name: "p"}: np, {Namespace: "x", Name: "q"}: nil},
		maps.Collect(o.Policies()))
	addrs, said := o.NodeAddrs()
	require.True(t, said)
	require.Equal(t, ipv4Addrs("10.1.0.5"), addrs)
	addrs[0] = netip.Addr{}
	require.Equal(t, ipv4Addrs("10.1.0.5"), *o.nodeAddrs)
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

func ipv4Addrs(texts ...string) []netip.Addr {
	out := make([]netip.Addr, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParseAddr(text)
	}
	return out
}
