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

// TestACLsAreShared: endpoints have the ACLs of a policy in common, unless a
// port of a pod has a part in them.
func TestACLsAreShared(t *testing.T) {
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
	acls := func(addr netip.Addr) []*acl.ACL { return d.ListOf(d.Home([]netip.Addr{addr}), false).ACLs }
	one, two := acls(addrs[0]), acls(addrs[1])
	require.Len(t, one, 3)
	require.Len(t, two, 3)
	require.Same(t, one[0], two[0], "a number")
	require.Equal(t, "8080", one[1].LocalPorts)
	require.Equal(t, "8081", two[1].LocalPorts, "a name")
	require.Equal(t, "3000 block in azure-acl-npm-block-in", acl.RuleText(one[2].ACL))
}
