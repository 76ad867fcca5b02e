package manifest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// clusterKind is the kind of a ClusterNetworkPolicy.
const clusterKind = "ClusterNetworkPolicy"

// checkClusterSpec returns errors for invalid selectors and networks that the CRD accepts. It masks the
// host bits of networks.
func checkClusterSpec(spec *v1alpha2.ClusterNetworkPolicySpec, masked masking) field.ErrorList {
	at := field.NewPath("spec")
	errs := checkPods(spec.Subject.Namespaces, spec.Subject.Pods, at.Child("subject"))
	for i, rule := range spec.Ingress {
		for j, peer := range rule.From {
			errs = append(errs, checkPods(peer.Namespaces, peer.Pods, at.Child("ingress").Index(i).Child("from").Index(j))...)
		}
	}
	for i, rule := range spec.Egress {
		for j, peer := range rule.To {
			here := at.Child("egress").Index(i).Child("to").Index(j)
			errs = append(errs, checkPods(peer.Namespaces, peer.Pods, here)...)
			errs = append(errs, checkSelector(peer.Nodes, here.Child("nodes"))...)
			for k := range peer.Networks {
				_, more := parseCIDR((*string)(&peer.Networks[k]), here.Child("networks").Index(k), masked)
				errs = append(errs, more...)
			}
		}
	}
	return errs
}

// checkPods checks the selectors of a subject or a peer.
func checkPods(namespaces *metav1.LabelSelector, pods *v1alpha2.NamespacedPod, at *field.Path) field.ErrorList {
	errs := checkSelector(namespaces, at.Child("namespaces"))
	if pods != nil {
		errs = append(errs, checkSelector(&pods.NamespaceSelector, at.Child("pods", "namespaceSelector"))...)
		errs = append(errs, checkSelector(&pods.PodSelector, at.Child("pods", "podSelector"))...)
	}
	return errs
}
