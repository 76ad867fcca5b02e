package desired

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestGroupsAreShared: endpoints have the rules of a policy in common, unless a
// port of a pod has a part in them.
func TestGroupsAreShared(t *testing.T) {
	d, tx := newTestState(), NewObjects()
	for i, port := range []intstr.IntOrString{intstr.FromInt32(80), intstr.FromString("http")} {
		tx.SetPolicy(&networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: fmt.Sprint("p", i)},
			Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
			}}},
		})
	}
	addrs := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	for i, addr := range addrs {
		tx.SharePod(&Pod{
			Namespace: "x", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Addr: addr, Local: true,
			Ports: []PodPort{{"http", "TCP", uint16(8080 + i)}},
		})
	}
	d.Stage(&tx, time.Time{})
	groups := func(addr netip.Addr) []*acl.Group { return d.RulesOf(d.Home([]netip.Addr{addr}), false).Groups }
	one, two := groups(addrs[0]), groups(addrs[1])
	require.Len(t, one, 2)
	require.Len(t, two, 2)
	require.Same(t, one[0], two[0], "a number")
	require.Equal(t, "8080", one[1].ACLs()[0].LocalPorts)
	require.Equal(t, "8081", two[1].ACLs()[0].LocalPorts, "a name")
}
