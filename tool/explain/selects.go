package explain

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/state"
)

// Idle returns a warning for each policy of a dump that selects no pod, of this node or of
// another one. A policy whose selector cannot be read is none of them: it has its own. Nor is
// one that may select pods whose labels are not known. In a namespace that takes more than most
// comparisons of a selector with a pod some are left out: tenants write both.
func Idle(d state.Dump, most int) []state.Warning {
	x := newPopulation(d, most)
	var out []state.Warning
	tell := func(kind, object, message string) {
		out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonSelectsNothing, Message: message})
	}
	for _, p := range d.Policies {
		if namespace := namespaceOf(p.Policy); p.Spec != nil && len(p.Selected) == 0 && !x.some(&p.Spec.PodSelector, namespace) {
			tell("NetworkPolicy", p.Policy, x.whyNone(namespace))
		}
	}
	for _, p := range d.ClusterPolicies {
		if p.Spec != nil && len(p.Selected) == 0 && !x.subject(p.Spec.Subject) {
			tell("ClusterNetworkPolicy", p.Name, "spec.subject selects no pod, so the policy changes nothing; check its selectors")
		}
	}
	return out
}

// population is the pods of a cluster, as selectors see them.
type population struct {
	pods       map[string][]labels.Set // by namespace
	namespaces map[string]labels.Set   // those that are known
	unlabeled  map[string]bool         // namespaces with pods whose labels are not known
	left       map[string]int          // how often selectors may still be asked, by namespace
}

func newPopulation(d state.Dump, most int) population {
	x := population{pods: map[string][]labels.Set{}, namespaces: map[string]labels.Set{}, unlabeled: map[string]bool{}, left: map[string]int{}}
	for _, p := range d.Pods {
		if !p.LostUntil.IsZero() {
			continue
		}
		namespace := namespaceOf(p.Pod)
		x.left[namespace] = most
		switch {
		case p.OverBudget != "":
			x.unlabeled[namespace] = true
		case !p.HostNetwork && !p.Finished:
			x.pods[namespace] = append(x.pods[namespace], p.Labels)
		}
	}
	for _, ns := range d.Namespaces {
		if ns.OverBudget == "" {
			x.namespaces[ns.Name] = ns.Labels
		}
	}
	return x
}

// some reports whether a selector selects a pod of a namespace, or may.
func (x population) some(selector *metav1.LabelSelector, namespace string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || x.unlabeled[namespace] {
		return true
	}
	for _, l := range x.pods[namespace] {
		if x.left[namespace]--; x.left[namespace] < 0 || s.Matches(l) {
			return true
		}
	}
	return false
}

// subject reports whether the subject of a ClusterNetworkPolicy has a pod.
func (x population) subject(subject v1alpha2.ClusterNetworkPolicySubject) bool {
	namespaces, pods := subject.Namespaces, &metav1.LabelSelector{}
	if subject.Pods != nil {
		namespaces, pods = &subject.Pods.NamespaceSelector, &subject.Pods.PodSelector
	}
	s, err := metav1.LabelSelectorAsSelector(namespaces)
	if err != nil {
		return true
	}
	for namespace := range x.left {
		l, known := x.namespaces[namespace]
		if (!known || s.Matches(l)) && x.some(pods, namespace) {
			return true
		}
	}
	return false
}

func (x population) whyNone(namespace string) string {
	if len(x.pods[namespace]) > 0 {
		return fmt.Sprintf("spec.podSelector matches none of the pods of namespace %s, so the policy changes nothing; check its labels", namespace)
	}
	message := fmt.Sprintf("there is no pod in namespace %s, so the policy changes nothing", namespace)
	if like := cli.Similar(namespace, slices.Sorted(maps.Keys(x.pods))); like != "" {
		message += fmt.Sprintf("; did you mean namespace %s?", like)
	}
	return message
}
