package gen

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/test/oracle"
)

// atom is a policy cut down to one rule with at most one peer and one port in
// one direction, so that its verdict is the work of the features it has.
type atom struct {
	policy   networkingv1.NetworkPolicy
	ingress  bool
	features []string
}

// atoms cuts a policy up.
func atoms(np networkingv1.NetworkPolicy) []atom {
	about := append(selectorFeatures("podSelector", &np.Spec.PodSelector), typesFeature(np))
	var all []atom
	for _, ingress := range []bool{true, false} {
		rules := np.Spec.Egress
		direction := "egress"
		if ingress {
			rules, direction = nil, "ingress"
			for _, r := range np.Spec.Ingress { // the same under other names
				rules = append(rules, networkingv1.NetworkPolicyEgressRule{To: r.From, Ports: r.Ports})
			}
		}
		if len(rules) == 0 {
			all = append(all, atom{np, ingress, append([]string{direction + ": no rules"}, about...)})
		}
		for _, rule := range rules {
			for _, part := range cut(rule) {
				one := *np.DeepCopy()
				if ingress {
					one.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: part.To, Ports: part.Ports}}
				} else {
					one.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{part}
				}
				features := append(peerFeatures(direction, part.To), portFeatures(direction, part.Ports)...)
				all = append(all, atom{one, ingress, append(features, about...)})
			}
		}
	}
	return all
}

// cut returns a rule for every pair of peer and port.
func cut(rule networkingv1.NetworkPolicyEgressRule) []networkingv1.NetworkPolicyEgressRule {
	peers := [][]networkingv1.NetworkPolicyPeer{nil}
	ports := [][]networkingv1.NetworkPolicyPort{nil}
	for i := range rule.To {
		peers = append(peers[:i], rule.To[i:i+1])
	}
	for i := range rule.Ports {
		ports = append(ports[:i], rule.Ports[i:i+1])
	}
	var parts []networkingv1.NetworkPolicyEgressRule
	for _, peer := range peers {
		for _, port := range ports {
			parts = append(parts, networkingv1.NetworkPolicyEgressRule{To: peer, Ports: port})
		}
	}
	return parts
}

func selectorFeatures(where string, s *metav1.LabelSelector) []string {
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
		return []string{where + " malformed"}
	}
	var features []string
	if len(s.MatchLabels) > 0 {
		features = append(features, where+" matchLabels")
	}
	for _, r := range s.MatchExpressions {
		features = append(features, where+" "+string(r.Operator))
	}
	if len(features) == 0 {
		features = append(features, where+" {}")
	}
	return features
}

func typesFeature(np networkingv1.NetworkPolicy) string {
	var words []string
	for _, t := range np.Spec.PolicyTypes {
		words = append(words, string(t))
	}
	switch {
	case len(words) > 0:
		return "policyTypes " + strings.Join(words, ",")
	case len(np.Spec.Egress) > 0:
		return "policyTypes default, with egress rules"
	default:
		return "policyTypes default, no egress rules"
	}
}

// peerFeatures names the kind of the one peer and what is in it.
func peerFeatures(direction string, peers []networkingv1.NetworkPolicyPeer) []string {
	at := direction + " peer: "
	if len(peers) == 0 {
		return []string{at + "none listed"}
	}
	peer := peers[0]
	pods, namespaces := peer.PodSelector, peer.NamespaceSelector
	switch {
	case peer.IPBlock != nil && (pods != nil || namespaces != nil):
		return []string{at + "ipBlock and selector"}
	case peer.IPBlock != nil:
		return []string{at + blockFeature(*peer.IPBlock)}
	case pods != nil && namespaces != nil:
		return append(selectorFeatures(at+"both, pods", pods), selectorFeatures(at+"both, namespaces", namespaces)...)
	case pods != nil:
		return selectorFeatures(at+"pods", pods)
	case namespaces != nil:
		return selectorFeatures(at+"namespaces", namespaces)
	default:
		return []string{at + "empty"}
	}
}

func blockFeature(block networkingv1.IPBlock) string {
	cidr, err := netip.ParsePrefix(block.CIDR)
	switch {
	case err != nil:
		return "malformed cidr"
	case cidr.Addr().Is6():
		return "IPv6 block"
	case len(block.Except) == 0 && cidr != cidr.Masked():
		return "block with host bits"
	case len(block.Except) == 0:
		return "block"
	}
	for _, text := range block.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil || !cidr.Overlaps(except) || except.Bits() < cidr.Bits() {
			return "malformed except"
		}
	}
	return "block with except"
}

// portFeatures names the kind of the one port and its protocol.
func portFeatures(direction string, ports []networkingv1.NetworkPolicyPort) []string {
	at := direction + " port: "
	if len(ports) == 0 {
		return []string{at + "none listed"}
	}
	port := ports[0]
	protocol := at + "default protocol"
	if port.Protocol != nil {
		protocol = at + string(*port.Protocol)
		if *port.Protocol != corev1.ProtocolTCP && *port.Protocol != corev1.ProtocolUDP && *port.Protocol != corev1.ProtocolSCTP {
			return []string{at + "unknown protocol"}
		}
	}
	switch {
	case port.Port == nil && port.EndPort != nil:
		return []string{at + "endPort alone"}
	case port.Port == nil:
		return []string{at + "no number", protocol}
	case port.Port.Type == intstr.String && port.EndPort != nil:
		return []string{at + "name with endPort"}
	case port.Port.Type == intstr.String && (port.Port.StrVal == "" || strings.Trim(port.Port.StrVal, "abcdefghijklmnopqrstuvwxyz") != ""):
		return []string{at + "malformed name"}
	case port.Port.Type == intstr.String:
		return []string{at + "name", protocol}
	case port.Port.IntVal < 1 || port.Port.IntVal > 65535:
		return []string{at + "number out of range"}
	case port.EndPort != nil && (*port.EndPort < port.Port.IntVal || *port.EndPort > 65535):
		return []string{at + "malformed endPort"}
	case port.EndPort != nil:
		return []string{at + "endPort", protocol}
	default:
		return []string{at + "number", protocol}
	}
}

// addrFeatures names what an address is to the cluster.
func addrFeatures(c oracle.Cluster, addr netip.Addr) []string {
	var features []string
	claimants := 0
	for i := range c.Pods {
		pod := &c.Pods[i]
		if oracle.Address(pod) != addr {
			continue
		}
		if oracle.Member(pod) {
			claimants++
		} else if oracle.AtNode(pod) {
			features = append(features, "host-network pod")
		} else {
			features = append(features, "finished pod")
		}
	}
	if claimants > 1 {
		features = append(features, "address of two pods")
	}
	pod := oracle.Owner(c, addr)
	if pod == nil {
		for _, node := range c.NodeAddrs {
			if node == addr {
				return append(features, "own node")
			}
		}
		return append(features, "no member pod")
	}
	return append(features, podFeatures(c, pod)...)
}

// podFeatures names what is special about a member pod.
func podFeatures(c oracle.Cluster, pod *corev1.Pod) []string {
	features := []string{"pod of another node", "pod of a namespace without object"}
	if pod.Spec.NodeName == Node {
		features[0] = "pod of the node"
	}
	for _, ns := range c.Namespaces {
		if ns.Name == pod.Namespace {
			features[1] = "pod of a known namespace"
		}
	}
	if pod.Status.Phase == corev1.PodPending {
		features = append(features, "Pending pod with address")
	}
	if pod.DeletionTimestamp != nil {
		features = append(features, "terminating pod")
	}
	if ips := pod.Status.PodIPs; len(ips) > 1 {
		first := "IPv4"
		if ips[0].IP != oracle.Address(pod).String() {
			first = "IPv6"
		}
		features = append(features, "pod with two families, "+first+" first")
	}
	if len(pod.Spec.InitContainers) > 0 {
		features = append(features, "pod with sidecar")
	}
	return features
}
