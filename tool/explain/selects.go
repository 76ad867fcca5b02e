package explain

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/phrase"
)

// Idle returns a warning for each policy that selects no pod of the cluster. It skips policies whose
// selector cannot be read, which have a warning of their own, and policies that may select pods with
// unknown labels. It compares selectors with pods at most the given number of times for each namespace,
// because tenants write both; policies after that get no warning.
func Idle(d state.Dump, most int) []state.Warning {
	x := newPopulation(d, most)
	var out []state.Warning
	tell := func(kind, object, message string) {
		out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonSelectsNothing, Message: message})
	}
	for _, p := range d.Policies {
		if namespace := namespaceOf(p.Policy); p.Spec != nil && len(p.Selected) == 0 && !x.selectsAny(&p.Spec.PodSelector, namespace) {
			tell("NetworkPolicy", p.Policy, x.whyNone(namespace))
		}
	}
	for _, p := range d.ClusterPolicies {
		if p.Spec != nil && len(p.Selected) == 0 && !x.subjectSelectsAny(p.Spec.Subject) {
			tell("ClusterNetworkPolicy", p.Name, "spec.subject selects no pod, so the policy changes nothing; check its selectors")
		}
	}
	return out
}

// population is the labels of a cluster's pods and namespaces.
type population struct {
	pods       map[string][]labels.Set // by namespace
	namespaces map[string]labels.Set   // labels of the known namespaces
	unlabeled  map[string]bool         // namespaces with pods whose labels are not known
	left       map[string]int          // remaining comparisons by namespace
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

// selectsAny reports whether a selector selects, or may select, a pod of a namespace.
func (x population) selectsAny(selector *metav1.LabelSelector, namespace string) bool {
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

// subjectSelectsAny reports whether the subject of a ClusterNetworkPolicy selects, or may select, a pod.
func (x population) subjectSelectsAny(subject v1alpha2.ClusterNetworkPolicySubject) bool {
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
		if (!known || s.Matches(l)) && x.selectsAny(pods, namespace) {
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
	if like := phrase.Similar(namespace, slices.Sorted(maps.Keys(x.pods))); like != "" {
		message += fmt.Sprintf("; did you mean namespace %s?", like)
	}
	return message
}
