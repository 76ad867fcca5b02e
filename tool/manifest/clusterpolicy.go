package manifest

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// clusterKind is the kind of a ClusterNetworkPolicy.
const clusterKind = "ClusterNetworkPolicy"

// clusterPolicy reads a ClusterNetworkPolicy. It refuses what an API server with the CRD refuses,
// and invalid selectors and networks, which such a server accepts.
func (l *loader) clusterPolicy(s source) error {
	if err := conform(s.place, nil, s.tree, reflect.TypeFor[v1alpha2.ClusterNetworkPolicy]()); err != nil {
		return err
	}
	delete(s.tree, "status") // API servers ignore it in what is applied
	if meta, ok := s.tree["metadata"].(map[string]any); ok {
		delete(meta, "namespace") // as kubectl and API servers do for a kind without namespaces
	}
	if err := s.refuse(clusterPolicies().validate(s.tree)); err != nil {
		return err
	}
	cnp := &v1alpha2.ClusterNetworkPolicy{}
	if err := l.decode(s, cnp, validation.NameIsDNSSubdomain, false); err != nil {
		return err
	}
	l.objects.ClusterPolicies = append(l.objects.ClusterPolicies, cnp)
	l.notePlaces(s.place, clusterKind+"/"+cnp.Name, len(cnp.Spec.Ingress), len(cnp.Spec.Egress))
	return clusterChecker{policyChecker{s.place, l.noteMasked(cnp.Name, clusterKind)}}.spec(&cnp.Spec)
}

// clusterChecker checks the selectors and networks, about which the CRD says little. It masks the
// networks.
type clusterChecker struct{ policyChecker }

func (c clusterChecker) spec(spec *v1alpha2.ClusterNetworkPolicySpec) error {
	at := field.NewPath("spec")
	if err := c.pods(spec.Subject.Namespaces, spec.Subject.Pods, at.Child("subject")); err != nil {
		return err
	}
	for i, rule := range spec.Ingress {
		for j, peer := range rule.From {
			if err := c.pods(peer.Namespaces, peer.Pods, at.Child("ingress").Index(i).Child("from").Index(j)); err != nil {
				return err
			}
		}
	}
	for i, rule := range spec.Egress {
		for j, peer := range rule.To {
			if err := c.egressPeer(peer, at.Child("egress").Index(i).Child("to").Index(j)); err != nil {
				return err
			}
		}
	}
	return nil
}

// pods checks the selectors of a subject or a peer that has pods.
func (c clusterChecker) pods(namespaces *metav1.LabelSelector, pods *v1alpha2.NamespacedPod, at *field.Path) error {
	if pods == nil {
		return checkSelector(c.place, namespaces, at.Child("namespaces"))
	}
	if err := checkSelector(c.place, &pods.NamespaceSelector, at.Child("pods", "namespaceSelector")); err != nil {
		return err
	}
	return checkSelector(c.place, &pods.PodSelector, at.Child("pods", "podSelector"))
}

func (c clusterChecker) egressPeer(p v1alpha2.ClusterNetworkPolicyEgressPeer, at *field.Path) error {
	if p.Nodes != nil {
		return checkSelector(c.place, p.Nodes, at.Child("nodes"))
	}
	for i := range p.Networks {
		text := string(p.Networks[i])
		if _, err := c.cidr(&text, at.Child("networks").Index(i)); err != nil {
			return err
		}
		p.Networks[i] = v1alpha2.CIDR(text)
	}
	return c.pods(p.Namespaces, p.Pods, at)
}
