package acl

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// wide is a policy with one rule: so many peers, and so many ports that none joins its
// neighbour.
func wide(peers, ports int) *networkingv1.NetworkPolicy {
	var rule networkingv1.NetworkPolicyIngressRule
	for i := range peers {
		rule.From = append(rule.From, networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": fmt.Sprint(i)}}})
	}
	for i := range ports {
		port := intstr.FromInt(1 + 2*i)
		rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Port: &port})
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"},
		Spec:       networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{rule}},
	}
}

// allocated returns the bytes that a function allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestRenderingIsLinear counts bytes, which stand for the work: a policy of many peers
// and many ports costs their sum to compile, to measure and to render, not the product.
func TestRenderingIsLinear(t *testing.T) {
	render := func(peers, ports int) (bytes uint64, acls []*SourcedACL) {
		np := wide(peers, ports)
		return allocated(func() {
			c := policy.Compile(np)
			acls = aclsOf(c, ipsets.Name.ID)
			require.GreaterOrEqual(t, Size(acls), len(acls))
		}), acls
	}
	peers, _ := render(1000, 1)
	ports, _ := render(1, 5000)
	both, acls := render(1000, 5000)
	t.Logf("1,000 peers: %d bytes, 5,000 ports: %d, both: %d", peers, ports, both)
	require.LessOrEqual(t, both, (peers+ports)*5/4)
	require.Len(t, acls, 1000)
	for _, a := range acls {
		require.Equal(t, len(strings.Split(a.LocalPorts, ",")), 5000)
	}
}

// drawPolicy makes a policy with all kinds of peers and ports.
func drawPolicy(t *rapid.T) policy.Policy {
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"}}
	np.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	peers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) networkingv1.NetworkPolicyPeer {
		switch labels := map[string]string{"a": rapid.SampledFrom([]string{"b", "c"}).Draw(t, "label")}; rapid.IntRange(0, 2).Draw(t, "peer") {
		case 0:
			block := fmt.Sprintf("10.0.%d.0/%d", rapid.IntRange(0, 3).Draw(t, "block"), rapid.IntRange(22, 32).Draw(t, "bits"))
			return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: block}}
		case 1:
			return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: labels}}
		default:
			return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: labels}}
		}
	}), 0, 4)
	ports := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) networkingv1.NetworkPolicyPort {
		port := intstr.FromInt(rapid.IntRange(8070, 8090).Draw(t, "port"))
		out := networkingv1.NetworkPolicyPort{Port: &port}
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			port = intstr.FromString("http")
		case 1:
			end := port.IntVal + int32(rapid.IntRange(0, 5).Draw(t, "more"))
			out.EndPort = &end
		}
		return out
	}), 0, 8)
	for range rapid.IntRange(0, 3).Draw(t, "rules") {
		np.Spec.Ingress = append(np.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: peers.Draw(t, "from"), Ports: ports.Draw(t, "ports")})
		np.Spec.Egress = append(np.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: peers.Draw(t, "to"), Ports: ports.Draw(t, "ports")})
	}
	return policy.Compile(np)
}

// TestRenderedIsCanonical: a rule is written as HNS is thought to show it, each once,
// with the rules that it came from; and Size is never too small.
func TestRenderedIsCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawPolicy(t)
		seen, used, bytes, acls := map[hns.ACL]bool{}, 0, 0, aclsOf(c, ipsets.Name.ID)
		for _, r := range acls {
			require.Equal(t, r.Canonical(), r.ACL)
			require.False(t, seen[r.ACL], "%+v is there twice", r.ACL)
			require.IsIncreasing(t, r.Rules)
			seen[r.ACL] = true
			if r.Unused { // those of numbers that no pod serves count nothing
				continue
			}
			text, err := json.Marshal(r.ACL)
			require.NoError(t, err)
			used, bytes = used+1, bytes+len(text)
		}
		require.GreaterOrEqual(t, Size(acls), used)
		require.GreaterOrEqual(t, Size(acls)*longACL, bytes)
	})
}
