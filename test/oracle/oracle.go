// Package oracle evaluates NetworkPolicy literally as the API documentation describes it, for one packet at
// a time, without sets, ids or priorities. It is deliberately naive and slow, so that a reader can compare
// it with the documentation. Tests compare the dataplane with it.
//
// Objects that the API server would reject can still come from an older cluster. The oracle fails closed
// for them: a malformed part allows nothing, and a policy with an unreadable podSelector isolates every pod
// of its namespace.
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

// Cluster is all input of a verdict. Names are unique within a kind and namespace, and UIDs of pods within
// the cluster.
type Cluster struct {
	Namespaces []corev1.Namespace
	Pods       []corev1.Pod
	Policies   []networkingv1.NetworkPolicy
	// Lost are pods whose objects were deleted before the pods finished, so their containers may run
	// on. A lost pod counts while no pod claims its address.
	Lost []corev1.Pod
	// ClusterPolicies are the ClusterNetworkPolicies, and Nodes the nodes that they may have as peers.
	ClusterPolicies []v1alpha2.ClusterNetworkPolicy
	Nodes           []corev1.Node
	// NodeAddrs may reach every pod, for the kubelet's probes.
	NodeAddrs []netip.Addr
	// Node is the node of the verdicts; "" means that all pods run on it.
	Node string
	// Now is the time of the verdicts; zero means that no start time is in the future.
	Now time.Time
}

// Side is the verdict at one end.
type Side struct {
	Allowed bool
	// Policy is the first policy (by namespace/name) that allows the traffic, or, if it is denied, the
	// first that isolates. It is empty if no policy isolates, or if the traffic is allowed in any case.
	Policy string
	// Isolated reports whether any NetworkPolicy isolates this end in this direction.
	Isolated bool
	// Tier and Rule identify the deciding rule of the ClusterNetworkPolicy that Policy names. Passed are
	// the Pass rules that matched before; only their Policy, Tier and Rule are set.
	Tier   v1alpha2.Tier
	Rule   int
	Passed []Side
	// Tiered reports whether a ClusterNetworkPolicy selects this end, for any direction.
	Tiered bool
	// Doubt reports that it is unknown whether some rule matches. Then Allowed says whether allowing the
	// traffic is correct; denying it is always correct.
	Doubt bool
}

// Verdict returns the verdicts on new connections from src to a port of dst, which pass if both sides allow
// them. Ingress is the verdict at dst, and egress the verdict at src. The side of an address that is not a
// member pod's allows everything. If an address is the zero Addr, both sides deny.
func Verdict(c Cluster, src, dst netip.Addr, protocol corev1.Protocol, port uint16) (ingress, egress Side) {
	ingress, egress = AtSwitch(c, src, dst, protocol, port)
	if src.IsValid() && src == dst { // a pod cannot block itself
		for _, s := range []*Side{&ingress, &egress} {
			*s = Side{Allowed: true, Isolated: s.Isolated, Tiered: s.Tiered}
		}
	}
	return ingress, egress
}

// AtSwitch is Verdict for a switch that also sees the traffic of a pod to itself, and treats the pod as any
// other peer of its policies. On a node such traffic does not reach the switch, so rules in HNS may either
// follow the policies literally or always let a pod reach itself.
func AtSwitch(c Cluster, src, dst netip.Addr, protocol corev1.Protocol, port uint16) (ingress, egress Side) {
	if !src.IsValid() || !dst.IsValid() {
		return Side{}, Side{}
	}
	p := packet{Cluster: c, src: endAt(c, src), dst: endAt(c, dst), protocol: protocol, port: port}
	return p.judged(networkingv1.PolicyTypeIngress), p.judged(networkingv1.PolicyTypeEgress)
}

// packet is the first packet of a connection.
type packet struct {
	Cluster

	src, dst end
	protocol corev1.Protocol
	port     uint16
}

// end is an address with its pods.
type end struct {
	addr netip.Addr
	// pod is the pod that peers in rules match, nil if no pod has the address or the owner is unknown.
	pod *corev1.Pod
	// doubtful reports that several pods have the address, so it is unknown which one it means.
	doubtful bool
	// subjects are the pods whose policies filter it: several if the owner is unknown.
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
		e.subjects = []*corev1.Pod{owner} // its pods run on another node
	}
	return e
}

// judged returns the verdict of all policies: at the destination for Ingress, at the source for Egress.
func (p packet) judged(direction networkingv1.PolicyType) Side {
	own := &p.dst
	if direction == networkingv1.PolicyTypeEgress {
		own = &p.src
	}
	var all []Side // one for each subject
	var isolating, allowing []string
	isolated, tiered := 0, false // isolated counts the subjects with NetworkPolicies for any direction
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
			allowing = nil // the owner is unknown, and the subjects have no policy in common
		}
		return decide(decision(isolating, allowing), nil)
	}
	s := all[0]
	if i := slices.IndexFunc(all, func(one Side) bool { return !one.Allowed }); i >= 0 {
		s = all[i] // the owner is unknown, so all subjects must allow it
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

// decision returns the NetworkPolicies as one rule of their tier, or no rule if none of them isolates.
func decision(isolating, allowing []string) []said {
	switch {
	case len(isolating) == 0:
		return nil
	case len(allowing) > 0:
		return []said{{Side{Policy: slices.Min(allowing), Isolated: true}, v1alpha2.ClusterNetworkPolicyRuleActionAccept, yes}}
	}
	return []said{{Side{Policy: slices.Min(isolating), Isolated: true}, v1alpha2.ClusterNetworkPolicyRuleActionDeny, yes}}
}

// applies reports whether the policy selects the pod. An unreadable podSelector selects every pod of the
// namespace.
func applies(np networkingv1.NetworkPolicy, pod *corev1.Pod) bool {
	if np.Namespace != pod.Namespace {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(&np.Spec.PodSelector)
	return err != nil || selector.Matches(labels.Set(pod.Labels))
}

// policyTypes returns the directions of the policy. If it names no known direction, these are Ingress, and
// also Egress if it has egress rules.
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

// allowedBy reports whether a rule of the policy for the direction allows the packet. A policy with an
// unreadable podSelector allows nothing, because its rules must not apply to all pods.
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
