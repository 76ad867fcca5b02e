package manifest

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// clusterKind is the kind of a ClusterNetworkPolicy.
const clusterKind = "ClusterNetworkPolicy"

// clusterPolicy reads a ClusterNetworkPolicy and refuses what an API server with
// its CRD refuses, and selectors that are none, which such a server takes.
func (l *loader) clusterPolicy(s source) error {
	if err := conform(s.place, nil, s.tree, reflect.TypeFor[v1alpha2.ClusterNetworkPolicy]()); err != nil {
		return err
	}
	if err := pruned(s.place, nil, s.tree); err != nil {
		return err
	}
	if meta, ok := s.tree["metadata"].(map[string]any); ok {
		delete(meta, "namespace") // as kubectl and API servers do for a kind without namespaces
	}
	cnp := &v1alpha2.ClusterNetworkPolicy{}
	if err := l.decode(s, cnp, validation.NameIsDNSSubdomain, false); err != nil {
		return err
	}
	if err := clusterPolicyBounds.check(s.place, nil, s.tree); err != nil {
		return err
	}
	l.objects.ClusterPolicies = append(l.objects.ClusterPolicies, cnp)
	l.notePlaces(s.place, clusterKind+"/"+cnp.Name, len(cnp.Spec.Ingress), len(cnp.Spec.Egress))
	return clusterChecker{policyChecker{s.place, l.noteMasked(cnp.Name, clusterKind)}}.spec(&cnp.Spec)
}

// clusterChecker checks what bounds do not say: selectors, and the CEL rules of
// the CRD. It masks the networks.
type clusterChecker struct{ policyChecker }

func (c clusterChecker) spec(spec *v1alpha2.ClusterNetworkPolicySpec) error {
	at := field.NewPath("spec")
	subject := v1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: spec.Subject.Namespaces, Pods: spec.Subject.Pods}
	if err := c.clusterPeer(subject, at.Child("subject")); err != nil {
		return err
	}
	for i, rule := range spec.Ingress {
		here := at.Child("ingress").Index(i)
		for j, p := range rule.From {
			peer := v1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: p.Namespaces, Pods: p.Pods}
			if err := c.clusterPeer(peer, here.Child("from").Index(j)); err != nil {
				return err
			}
		}
		if err := c.ranges(rule.Protocols, here.Child("protocols")); err != nil {
			return err
		}
	}
	for i, rule := range spec.Egress {
		here := at.Child("egress").Index(i)
		for j, peer := range rule.To {
			if err := c.clusterPeer(peer, here.Child("to").Index(j)); err != nil {
				return err
			}
		}
		if err := c.ranges(rule.Protocols, here.Child("protocols")); err != nil {
			return err
		}
		if err := c.named(rule, here); err != nil {
			return err
		}
	}
	return nil
}

// clusterPeer checks a peer, or a subject.
func (c clusterChecker) clusterPeer(p v1alpha2.ClusterNetworkPolicyEgressPeer, at *field.Path) error {
	switch {
	case p.Namespaces != nil:
		return checkSelector(c.place, p.Namespaces, at.Child("namespaces"))
	case p.Nodes != nil:
		return checkSelector(c.place, p.Nodes, at.Child("nodes"))
	case p.Pods != nil:
		pods := at.Child("pods")
		if err := checkSelector(c.place, &p.Pods.NamespaceSelector, pods.Child("namespaceSelector")); err != nil {
			return err
		}
		return checkSelector(c.place, &p.Pods.PodSelector, pods.Child("podSelector"))
	}
	for i := range p.Networks {
		text := string(p.Networks[i])
		if _, err := c.cidr(&text, at.Child("networks").Index(i)); err != nil {
			return err
		}
		p.Networks[i] = v1alpha2.CIDR(text)
	}
	return nil
}

// ranges refuses a range that does not rise.
func (c clusterChecker) ranges(protocols []v1alpha2.ClusterNetworkPolicyProtocol, at *field.Path) error {
	for i, p := range protocols {
		var port *v1alpha2.Port
		var name string
		switch {
		case p.TCP != nil:
			name, port = "tcp", p.TCP.DestinationPort
		case p.UDP != nil:
			name, port = "udp", p.UDP.DestinationPort
		case p.SCTP != nil:
			name, port = "sctp", p.SCTP.DestinationPort
		}
		if port != nil && port.Range != nil && port.Range.Start >= port.Range.End {
			return c.fail(at.Index(i).Child(name, "destinationPort", "range"),
				"start %d is not below end %d; swap them, or use number for one port", port.Range.Start, port.Range.End)
		}
	}
	return nil
}

// named refuses a named port beside a peer that names no port.
func (c clusterChecker) named(rule v1alpha2.ClusterNetworkPolicyEgressRule, at *field.Path) error {
	for i, p := range rule.Protocols {
		if p.TCP != nil || p.UDP != nil || p.SCTP != nil { // then it has no other field
			continue
		}
		for _, peer := range rule.To {
			var kind string
			switch {
			case peer.Nodes != nil:
				kind = "nodes"
			case peer.Networks != nil:
				kind = "networks"
			case peer.DomainNames != nil:
				kind = "domainNames"
			default:
				continue
			}
			return c.fail(at.Child("protocols").Index(i).Child("destinationNamedPort"),
				"stands beside %s, which name no ports; use a number, or make two rules", kind)
		}
	}
	return nil
}
