package explain

import (
	"fmt"
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/phrase"
)

// Idle returns a warning for each policy that selects no pod of the cluster. It skips policies that may
// select pods with unknown labels. It compares selectors with pods at most the given number of times for
// each namespace, because tenants write both; policies after that get no warning.
func Idle(d state.Dump, most int) []state.Warning {
	all := populations(d, most)
	namespaces := map[string]map[string]string{}
	for _, ns := range d.Namespaces {
		if ns.OverBudget == "" {
			namespaces[ns.Name] = ns.Labels
		}
	}
	var out []state.Warning
	tell := func(kind, object, message string) {
		out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonSelectsNothing, Message: message})
	}
	for _, p := range d.Policies {
		if p.Spec == nil || len(p.Selected) > 0 {
			continue
		}
		selector := networkingv1.NetworkPolicySpec{PodSelector: p.Spec.PodSelector}
		subject := policy.Compile(&networkingv1.NetworkPolicy{Spec: selector}).Subject
		if namespace := namespaceOf(p.Policy); !all[namespace].selectedBy(subject) {
			tell("NetworkPolicy", p.Policy, whyNone(all, namespace))
		}
	}
	for _, p := range d.ClusterPolicies {
		if p.Spec == nil || len(p.Selected) > 0 {
			continue
		}
		compiled := policy.CompileCluster(&v1alpha2.ClusterNetworkPolicy{Spec: v1alpha2.ClusterNetworkPolicySpec{Subject: p.Spec.Subject}})
		selects := false
		for namespace, pods := range all {
			labels, known := namespaces[namespace]
			selects = selects || (!known || compiled.Namespaces.Matches(labels)) && pods.selectedBy(compiled.Subject)
		}
		if !selects {
			tell("ClusterNetworkPolicy", p.Name, "spec.subject selects no pod, so the policy changes nothing; check its selectors")
		}
	}
	return out
}

// population is the pods of a namespace that policies can select.
type population struct {
	labels  []map[string]string
	unknown bool // there are pods whose labels are not known
	left    int  // remaining comparisons
}

// populations returns the population of each namespace with a pod that policies can select.
func populations(d state.Dump, most int) map[string]*population {
	out := map[string]*population{}
	for _, p := range d.Pods {
		if !p.LostUntil.IsZero() || p.OverBudget == "" && (p.HostNetwork || p.Finished) {
			continue
		}
		namespace := namespaceOf(p.Pod)
		if out[namespace] == nil {
			out[namespace] = &population{left: most}
		}
		out[namespace].labels = append(out[namespace].labels, p.Labels)
		out[namespace].unknown = out[namespace].unknown || p.OverBudget != ""
	}
	return out
}

// selectedBy reports whether a selector selects, or may select, a pod. A nil population has no pods.
func (p *population) selectedBy(subject policy.LabelMatcher) bool {
	return p != nil && (p.unknown || slices.ContainsFunc(p.labels, func(labels map[string]string) bool {
		p.left--
		return p.left < 0 || subject.Matches(labels)
	}))
}

// whyNone says why a NetworkPolicy of a namespace selects no pod.
func whyNone(all map[string]*population, namespace string) string {
	if all[namespace] != nil {
		return fmt.Sprintf("spec.podSelector matches none of the pods of namespace %s, so the policy changes nothing; check its labels", namespace)
	}
	message := fmt.Sprintf("there is no pod in namespace %s, so the policy changes nothing", namespace)
	if like := phrase.Similar(namespace, slices.Sorted(maps.Keys(all))); like != "" {
		message += fmt.Sprintf("; did you mean namespace %s?", like)
	}
	return message
}
