//go:build linux

package agent

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/test/effort"
)

// drawer draws clusters that an API server accepts. Everything follows from
// its seed; features take turns, so that each is in every large cluster.
type drawer struct{ *rand.Rand }

// newDrawer returns a drawer. WINNPM_SEED draws again what a test has drawn that
// printed its seed.
func newDrawer(t *testing.T) drawer {
	t.Helper()
	return drawer{rand.New(rand.NewPCG(effort.Seed(t), 0))}
}

func pick[T any](d drawer, values []T) T { return values[d.IntN(len(values))] }

// Words of the drawn clusters.
var (
	teams = []string{"red", "blue", "green"}
	apps  = []string{"web", "api", "db", "cache"}
	tiers = []string{"front", "back"}
)

func namespaceName(i int) string { return fmt.Sprintf("ns-%d", i) }

// namespaceLabels draws labels; some namespaces have no stage.
func (d drawer) namespaceLabels() map[string]string {
	labels := map[string]string{"team": pick(d, teams)}
	if d.IntN(2) == 0 {
		labels["stage"] = pick(d, []string{"prod", "test"})
	}
	return labels
}

// podLabels draws labels; some pods have no tier.
func (d drawer) podLabels() map[string]string {
	labels := map[string]string{"app": pick(d, apps)}
	if d.IntN(3) > 0 {
		labels["tier"] = pick(d, tiers)
	}
	return labels
}

// pod draws a pod; names of ports mean other numbers in other pods.
func (d drawer) pod(namespace, name, node string, addr netip.Addr) pod {
	p := pod{namespace: namespace, name: name, node: node, addr: addr, labels: d.podLabels()}
	p.ports = append(p.ports, corev1.ContainerPort{Name: "http", ContainerPort: pick(d, []int32{80, 8080})})
	if d.IntN(2) == 0 {
		p.ports = append(p.ports, corev1.ContainerPort{Name: "dns", ContainerPort: pick(d, []int32{53, 5353}), Protocol: corev1.ProtocolUDP})
	}
	return p
}

// podSelector draws a selector of pods; turn chooses its kind.
func (d drawer) podSelector(turn int) metav1.LabelSelector {
	expression := func(key string, op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	switch turn % 7 {
	case 0:
		return metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(d, apps)}}
	case 1:
		return expression("app", metav1.LabelSelectorOpNotIn, pick(d, apps), pick(d, apps))
	case 2:
		return expression("tier", metav1.LabelSelectorOpExists)
	case 3:
		return expression("app", metav1.LabelSelectorOpIn, apps[0], pick(d, apps[1:]))
	case 4:
		return expression("tier", metav1.LabelSelectorOpDoesNotExist)
	case 5:
		s := expression("app", metav1.LabelSelectorOpIn, apps[:2]...)
		s.MatchLabels = map[string]string{"tier": pick(d, tiers)}
		return s
	default:
		return metav1.LabelSelector{}
	}
}

// namespaceSelector draws a selector of namespaces.
func (d drawer) namespaceSelector(turn int) metav1.LabelSelector {
	expression := func(key string, op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	switch turn % 5 {
	case 0:
		return metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(d, teams)}}
	case 1:
		return expression("team", metav1.LabelSelectorOpNotIn, pick(d, teams))
	case 2:
		return expression("stage", metav1.LabelSelectorOpExists)
	case 3:
		return metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespaceName(d.IntN(4))}}
	default:
		return metav1.LabelSelector{}
	}
}

// peers draws the peers of a rule; none means everybody.
func (d drawer) peers(turn int) []networkingv1.NetworkPolicyPeer {
	podsLike, namespacesLike := d.podSelector(turn), d.namespaceSelector(turn)
	switch turn % 6 {
	case 0:
		return []networkingv1.NetworkPolicyPeer{{PodSelector: &podsLike}}
	case 1:
		return []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &namespacesLike}}
	case 2:
		return []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &namespacesLike, PodSelector: &podsLike}}
	case 3:
		return []networkingv1.NetworkPolicyPeer{{IPBlock: d.ipBlock()}}
	case 4:
		return []networkingv1.NetworkPolicyPeer{{PodSelector: &podsLike}, {IPBlock: d.ipBlock()}, {NamespaceSelector: &namespacesLike}}
	default:
		return nil
	}
}

func (d drawer) ipBlock() *networkingv1.IPBlock {
	return &networkingv1.IPBlock{
		CIDR:   pick(d, []string{"10.1.0.0/16", "10.1.0.0/25", "0.0.0.0/0"}),
		Except: pick(d, [][]string{nil, {"10.1.0.0/28"}, {"10.1.0.32/27", "10.1.0.5/32"}}),
	}
}

// policyPorts draws the ports of a rule; none means all.
func (d drawer) policyPorts(turn int) []networkingv1.NetworkPolicyPort {
	port := func(protocol corev1.Protocol, port intstr.IntOrString, end *int32) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &port, EndPort: end}
	}
	end := int32(8090)
	switch turn % 6 {
	case 0:
		return []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, intstr.FromInt32(80), nil)}
	case 1:
		return []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, intstr.FromInt32(8080), &end)}
	case 2:
		return []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, intstr.FromString("http"), nil)}
	case 3:
		return []networkingv1.NetworkPolicyPort{
			port(corev1.ProtocolUDP, intstr.FromString("dns"), nil), port(corev1.ProtocolTCP, intstr.FromInt32(443), nil),
		}
	case 4:
		udp := corev1.ProtocolUDP
		return []networkingv1.NetworkPolicyPort{{Protocol: &udp}}
	default:
		return nil
	}
}

// policy draws a policy. Peers, ports and directions take turns at different
// paces, so that each meets each.
func (d drawer) policy(namespace, name string, turn int) *networkingv1.NetworkPolicy {
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	np.Spec.PodSelector = d.podSelector(d.IntN(7))
	rules := 1 + d.IntN(2)
	const in, out = networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	np.Spec.PolicyTypes = [][]networkingv1.PolicyType{{in}, {in, out}, {in}, {out}}[turn%4]
	for i := range rules {
		if turn%4 != 3 {
			np.Spec.Ingress = append(np.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
				From: d.peers(turn + i), Ports: d.policyPorts(turn/2 + 3*i),
			})
		}
		if turn%2 == 1 {
			np.Spec.Egress = append(np.Spec.Egress, networkingv1.NetworkPolicyEgressRule{
				To: d.peers(turn/2 + i), Ports: d.policyPorts(turn + i),
			})
		}
	}
	return np
}
