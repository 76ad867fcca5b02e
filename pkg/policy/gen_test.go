package policy_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// The words are few, so that what is generated meets.
var (
	namespaces = []string{"x", "y", "z"}
	keys       = []string{"app", "tier"}
	values     = []string{"", "a", "b", "c"}
	portNames  = []string{"web", "dns", "none"}
	cidrs      = []string{"10.0.0.0/24", "10.0.0.0/28", "10.0.0.8/29", "10.0.0.12/30", "10.0.0.1/32", "10.0.0.7/28", "0.0.0.0/0"}

	badKeys      = []string{"", "no blank", "a//b", "tab\tline\n"}
	badValues    = []string{"no blank", "-", "line\nbreak", "a:b"}
	badOperators = []metav1.LabelSelectorOperator{"", "Gt", "in", "="}
	badCIDRs     = []string{"", "10.0.0.0", "10.0.0.0/33", "010.0.0.0/8", "2001:db8::/32", "::ffff:10.0.0.0/104", "fe80::1%eth0/64", "\n"}
	badPorts     = []int32{0, -1, 65536, 1 << 30}
	badNames     = []string{"", "80", "HTTP", "-web", "a--b", "longer-than-fifteen", "\n"}
)

// shape says how often a generated part is malformed: one in bad, 0 never.
type shape struct{ bad int }

func (s shape) broken(t *rapid.T) bool {
	return s.bad > 0 && rapid.IntRange(1, s.bad).Draw(t, "broken") == 1
}

func pick[T any](t *rapid.T, from []T, label string) T { return rapid.SampledFrom(from).Draw(t, label) }

// optional draws nil half of the time.
func optional[T any](t *rapid.T, draw func() T) *T {
	if rapid.Bool().Draw(t, "nil") {
		return nil
	}
	v := draw()
	return &v
}

// list draws nil, an empty list, or up to most elements.
func list[T any](t *rapid.T, most int, draw func() T) []T {
	n := rapid.IntRange(-1, most).Draw(t, "length")
	if n < 0 {
		return nil
	}
	out := make([]T, 0, n)
	for range n {
		out = append(out, draw())
	}
	return out
}

func (s shape) policy(t *rapid.T) *networkingv1.NetworkPolicy {
	np := &networkingv1.NetworkPolicy{}
	np.Namespace, np.Name = pick(t, namespaces, "namespace"), "p"
	np.Spec.PodSelector = s.selector(t)
	np.Spec.PolicyTypes = list(t, 2, func() networkingv1.PolicyType {
		if s.broken(t) {
			return "ingress"
		}
		return pick(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, "type")
	})
	np.Spec.Ingress = list(t, 3, func() networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{From: s.peers(t), Ports: s.ports(t)}
	})
	np.Spec.Egress = list(t, 3, func() networkingv1.NetworkPolicyEgressRule {
		return networkingv1.NetworkPolicyEgressRule{To: s.peers(t), Ports: s.ports(t)}
	})
	return np
}

func (s shape) selector(t *rapid.T) metav1.LabelSelector {
	var out metav1.LabelSelector
	for range rapid.IntRange(0, 1).Draw(t, "labels") {
		key, value := pick(t, keys, "key"), pick(t, values, "value")
		if s.broken(t) {
			value = pick(t, badValues, "value")
		}
		out.MatchLabels = map[string]string{key: value}
	}
	out.MatchExpressions = list(t, 2, func() metav1.LabelSelectorRequirement { return s.term(t) })
	return out
}

func (s shape) term(t *rapid.T) metav1.LabelSelectorRequirement {
	out := metav1.LabelSelectorRequirement{Key: pick(t, keys, "key")}
	out.Operator = pick(t, []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
	}, "operator")
	takesValues := out.Operator == metav1.LabelSelectorOpIn || out.Operator == metav1.LabelSelectorOpNotIn
	if takesValues {
		out.Values = append(list(t, 2, func() string { return pick(t, values, "value") }), pick(t, values, "value"))
	}
	if s.broken(t) {
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			out.Key = pick(t, badKeys, "key")
		case 1:
			out.Operator = pick(t, badOperators, "operator")
		case 2:
			out.Values = append(out.Values, pick(t, badValues, "value"))
		case 3:
			if out.Values = nil; !takesValues {
				out.Values = []string{"a"}
			}
		}
	}
	return out
}

func (s shape) peers(t *rapid.T) []networkingv1.NetworkPolicyPeer {
	return list(t, 3, func() networkingv1.NetworkPolicyPeer {
		var p networkingv1.NetworkPolicyPeer
		form := rapid.IntRange(1, 4).Draw(t, "form")
		if form == 4 || s.broken(t) {
			p.IPBlock = s.block(t)
		}
		if form&1 != 0 || s.broken(t) {
			p.PodSelector = new(s.selector(t))
		}
		if form&2 != 0 && !s.broken(t) {
			p.NamespaceSelector = new(s.selector(t))
		}
		return p
	})
}

func (s shape) block(t *rapid.T) *networkingv1.IPBlock {
	draw := func() string {
		if s.broken(t) {
			return pick(t, badCIDRs, "cidr")
		}
		return pick(t, cidrs, "cidr")
	}
	return &networkingv1.IPBlock{CIDR: draw(), Except: list(t, 2, draw)}
}

func (s shape) ports(t *rapid.T) []networkingv1.NetworkPolicyPort {
	return list(t, 4, func() networkingv1.NetworkPolicyPort {
		var p networkingv1.NetworkPolicyPort
		p.Protocol = optional(t, func() corev1.Protocol {
			if s.broken(t) {
				return pick(t, []corev1.Protocol{"", "tcp", "ICMP"}, "protocol")
			}
			return pick(t, protocols, "protocol")
		})
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 0:
		case 1:
			p.Port = new(intstr.FromString(pick(t, portNames, "name")))
			if s.broken(t) {
				p.Port = new(intstr.FromString(pick(t, badNames, "name")))
			}
		default:
			first := rapid.Int32Range(1, 8).Draw(t, "first")
			p.Port = new(intstr.FromInt32(first))
			p.EndPort = optional(t, func() int32 { return rapid.Int32Range(first, 9).Draw(t, "last") })
		}
		if s.broken(t) {
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				p.EndPort = new(pick(t, badPorts, "end"))
			case 1:
				p.Port = new(intstr.FromInt32(pick(t, badPorts, "port")))
			case 2:
				p.Port = &intstr.IntOrString{Type: 7, IntVal: 80, StrVal: "web"}
			}
		}
		return p
	})
}

// address is one of the few addresses that the blocks tell apart.
func address(i int) string { return fmt.Sprintf("10.0.0.%d", i) }
