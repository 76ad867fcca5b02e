// Package oracle evaluates NetworkPolicy the way the API's own documentation words it:
// object by object, packet by packet, without sets, ids or priorities. It is
// deliberately naive and slow, so that a reader can compare it with the documentation;
// tests compare the dataplane with it.
//
// What the API server would refuse can still come from an older cluster. Here
// it fails closed: a malformed part allows nothing, and a policy that does not
// tell which pods it selects isolates every pod of its namespace.
package oracle

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// Cluster is everything that a verdict depends on. Names are unique within a
// kind and namespace, UIDs of pods within the cluster.
type Cluster struct {
	Namespaces []corev1.Namespace
	Pods       []corev1.Pod
	Policies   []networkingv1.NetworkPolicy
	// Lost are pods whose objects were deleted before the pods finished, so their containers may run
	// on. A lost pod counts while no pod claims its address.
	Lost []corev1.Pod
	// ClusterPolicies are the tiers around Policies, Nodes what they may have for a peer.
	ClusterPolicies []v1alpha2.ClusterNetworkPolicy
	Nodes           []corev1.Node
	// NodeAddrs may reach every pod, for the kubelet's probes.
	NodeAddrs []netip.Addr
	// Node is the node at which verdicts are asked for; "" when all pods run there.
	Node string
	// Now is the time at which they are; zero when no start time is in the future.
	Now time.Time
}

// Side is what one end of the traffic says to it.
type Side struct {
	Allowed bool
	// Policy is the first (by namespace/name) that allows the traffic or, when
	// it is denied, the first that isolates. It is empty when nothing isolates
	// and when the traffic needs no policy's permission.
	Policy string
	// Isolated reports whether any NetworkPolicy isolates this end in this direction.
	Isolated bool
	// Tier and Rule are of the rule of a ClusterNetworkPolicy that decided: Policy is its
	// name then. Passed are the rules that passed the traffic on before, of which Policy,
	// Tier and Rule are set.
	Tier   v1alpha2.Tier
	Rule   int
	Passed []Side
	// Tiered reports whether a ClusterNetworkPolicy is about this end, in any direction.
	Tiered bool
	// Doubt: nobody knows whether some rule means the traffic. Then Allowed says whether
	// it is right to allow it; to deny it is right in any case.
	Doubt bool
}

// Verdict tells what happens to new connections from src to a port of dst: the traffic
// flows when both sides allow it. Ingress is what dst says, egress what src says; the side
// of an address that is no member pod allows everything. The zero Addr has no traffic: both
// sides deny.
func Verdict(c Cluster, src, dst netip.Addr, protocol corev1.Protocol, port uint16) (ingress, egress Side) {
	ingress, egress = AtSwitch(c, src, dst, protocol, port)
	if src.IsValid() && src == dst { // a pod cannot block itself
		for _, s := range []*Side{&ingress, &egress} {
			*s = Side{Allowed: true, Isolated: s.Isolated, Tiered: s.Tiered}
		}
	}
	return ingress, egress
}

// AtSwitch is Verdict for a switch that sees all traffic, also what a pod sends to itself:
// there the pod is a peer of its policies as any other. On a node such traffic does not
// reach the switch. So rules in HNS may follow the policies to the letter, or always let a
// pod reach itself.
func AtSwitch(c Cluster, src, dst netip.Addr, protocol corev1.Protocol, port uint16) (ingress, egress Side) {
	if !src.IsValid() || !dst.IsValid() {
		return Side{}, Side{}
	}
	p := packet{Cluster: c, src: endAt(c, src), dst: endAt(c, dst), protocol: protocol, port: port}
	return p.judged(networkingv1.PolicyTypeIngress), p.judged(networkingv1.PolicyTypeEgress)
}

// packet opens a connection. It knows addresses only, as the network does.
type packet struct {
	Cluster

	src, dst end
	protocol corev1.Protocol
	port     uint16
}

// end is an address.
type end struct {
	addr netip.Addr
	// pod is the pod that it means to others, nil if it means none or nobody knows.
	pod *corev1.Pod
	// doubtful: several pods have it, and nobody knows which it means.
	doubtful bool
	// subjects are the pods whose policies filter it, several where nobody knows.
	subjects []*corev1.Pod
}

func endAt(c Cluster, addr netip.Addr) end {
	e := end{addr: addr, subjects: Residents(c, addr), doubtful: Doubtful(c, addr)}
	owner, lost := Owner(c, addr), LostAt(c, addr)
	if !e.doubtful {
		e.pod = owner
	}
	switch {
	case lost != nil:
		e.subjects = []*corev1.Pod{lost}
	case len(e.subjects) == 0 && owner != nil:
		e.subjects = []*corev1.Pod{owner} // elsewhere
	}
	return e
}

// judged returns the verdict of all policies: at the destination for Ingress, at the source for Egress.
func (p packet) judged(direction networkingv1.PolicyType) Side {
	own := &p.dst
	if direction == networkingv1.PolicyTypeEgress {
		own = &p.src
	}
	var all []Side // of each subject
	var isolating, allowing []string
	isolated, tiered := 0, false // isolated is how many subjects have NetworkPolicies, in either direction
	for _, pod := range own.subjects {
		own.pod = pod
		isolates, allows, has := p.networkPolicies(pod, direction)
		isolating, allowing = append(isolating, isolates...), append(allowing, allows...)
		if has {
			isolated++
		}
		tiered = tiered || p.tiered(pod)
		all = append(all, decide(slices.Concat(p.rules(pod, direction, v1alpha2.AdminTier), decision(isolates, allows), p.rules(pod, direction, v1alpha2.BaselineTier)), nil))
	}
	if direction == networkingv1.PolicyTypeIngress && slices.Contains(p.NodeAddrs, p.src.addr) {
		return Side{Allowed: true, Isolated: len(isolating) > 0, Tiered: tiered}
	}
	if !tiered {
		if isolated > 1 {
			allowing = nil // nobody knows whose traffic it is, and they have no policy in common
		}
		return decide(decision(isolating, allowing), nil)
	}
	s := all[0]
	if i := slices.IndexFunc(all, func(one Side) bool { return !one.Allowed }); i >= 0 {
		s = all[i] // nobody knows whose traffic it is: all of them have to agree
	}
	s.Tiered, s.Doubt = true, s.Doubt || len(all) > 1
	return s
}

// networkPolicies returns the names of the NetworkPolicies that isolate a pod in a direction, and of those
// that allow the packet. It reports whether there are any in either direction.
func (p packet) networkPolicies(pod *corev1.Pod, direction networkingv1.PolicyType) (isolating, allowing []string, has bool) {
	for _, np := range p.Policies {
		if !applies(np, pod) {
			continue
		}
		has = true
		if !slices.Contains(policyTypes(np), direction) {
			continue
		}
		name := np.Namespace + "/" + np.Name
		isolating = append(isolating, name)
		if p.allowedBy(np, direction) {
			allowing = append(allowing, name)
		}
	}
	return isolating, allowing, has
}

// decision returns the tier of the NetworkPolicies as one rule, or none if they do not isolate.
func decision(isolating, allowing []string) []said {
	switch {
	case len(isolating) == 0:
		return nil
	case len(allowing) > 0:
		return []said{{Side{Policy: slices.Min(allowing), Isolated: true}, v1alpha2.ClusterNetworkPolicyRuleActionAccept, yes}}
	}
	return []said{{Side{Policy: slices.Min(isolating), Isolated: true}, v1alpha2.ClusterNetworkPolicyRuleActionDeny, yes}}
}

// applies reports whether the policy is about the pod. A podSelector that
// cannot be read is about every pod of the namespace.
func applies(np networkingv1.NetworkPolicy, pod *corev1.Pod) bool {
	if np.Namespace != pod.Namespace {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(&np.Spec.PodSelector)
	return err != nil || selector.Matches(labels.Set(pod.Labels))
}

// policyTypes returns the directions that the policy is about. When it does
// not say (in words that are known), that is Ingress, and Egress too if it has
// rules for it.
func policyTypes(np networkingv1.NetworkPolicy) []networkingv1.PolicyType {
	said := slices.DeleteFunc(slices.Clone(np.Spec.PolicyTypes), func(t networkingv1.PolicyType) bool {
		return t != networkingv1.PolicyTypeIngress && t != networkingv1.PolicyTypeEgress
	})
	switch {
	case len(said) > 0:
		return said
	case len(np.Spec.Egress) > 0:
		return []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	}
	return []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
}

// allowedBy reports whether a rule of the policy for the direction lets the
// packet through. A policy whose podSelector cannot be read allows nothing:
// what it meant to open for some pods must not open all of them.
func (p packet) allowedBy(np networkingv1.NetworkPolicy, direction networkingv1.PolicyType) bool {
	if _, err := metav1.LabelSelectorAsSelector(&np.Spec.PodSelector); err != nil {
		return false
	}
	if direction == networkingv1.PolicyTypeIngress {
		return slices.ContainsFunc(np.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
			return p.fromAny(r.From, np.Namespace, p.src) && p.toAny(r.Ports)
		})
	}
	return slices.ContainsFunc(np.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
		return p.fromAny(r.To, np.Namespace, p.dst) && p.toAny(r.Ports)
	})
}
