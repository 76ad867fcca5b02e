package manifest

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxPods bounds what a slip in a number of replicas can cost. Kubernetes
// itself is made for up to 150,000 pods.
const maxPods = 150_000

// workload is an object that makes pods from a template.
type workload struct {
	place
	kind     string
	meta     metav1.ObjectMeta
	count    *int32   // nil: 1
	counter  string   // the name of the field of count
	below    []string // the fields of spec that template is in, if it is not there itself
	perNode  bool     // one for each node, instead of count
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec
}

func (l *loader) workload(s source, w workload) error {
	w.place, w.kind = s.place, s.kind
	if w.count != nil && *w.count < 0 {
		return s.fail(field.NewPath("spec", w.counter), "%d is negative; use 0 or more", *w.count)
	}
	l.workloads = append(l.workloads, w)
	return checkTemplate(s.place, w.selector, &w.template, w.below...)
}

// expand makes the pods of the workloads, in an order that does not depend on
// that of the text. Names that are taken are passed over. A workload whose
// pods or replica sets are in the text too, as in what kubectl get prints, has
// made its pods already.
func (l *loader) expand(node string) error {
	taken := map[string]bool{}
	for _, pod := range l.objects.Pods {
		taken[pod.Namespace+"/"+pod.Name] = true
	}
	made := l.owners()
	slices.SortFunc(l.workloads, func(a, b workload) int {
		// First those whose pods have these very names in a cluster.
		return cmp.Or(
			cmp.Compare(rank(a.kind), rank(b.kind)),
			cmp.Compare(a.kind, b.kind),
			cmp.Compare(a.meta.Namespace, b.meta.Namespace),
			cmp.Compare(a.meta.Name, b.meta.Name),
		)
	})
	for _, w := range l.workloads {
		if made[w.kind+" "+w.meta.Namespace+"/"+w.meta.Name] {
			continue
		}
		nodes := l.placements(w, node)
		if len(taken)+len(nodes) > maxPods {
			return w.fail(field.NewPath("spec"), "makes %d pods, more than %d in total; use fewer", len(nodes), maxPods)
		}
		number, owner := 0, w.owner()
		for _, on := range nodes {
			name := fmt.Sprintf("%s-%d", w.meta.Name, number)
			for taken[w.meta.Namespace+"/"+name] {
				number++
				name = fmt.Sprintf("%s-%d", w.meta.Name, number)
			}
			if problems := apivalidation.NameIsDNSSubdomain(name, false); len(problems) > 0 {
				return w.fail(field.NewPath("metadata", "name"), "makes the pod name %q: %s", name, problems[0])
			}
			taken[w.meta.Namespace+"/"+name] = true
			l.objects.Pods = append(l.objects.Pods, w.pod(name, on, owner))
		}
	}
	return nil
}

func rank(kind string) int {
	if kind == "StatefulSet" {
		return 0
	}
	return 1
}

// owners returns the controllers, as kind and full name, of what the text has.
func (l *loader) owners() map[string]bool {
	out := map[string]bool{}
	add := func(o metav1.Object) {
		if ref := metav1.GetControllerOf(o); ref != nil {
			out[ref.Kind+" "+o.GetNamespace()+"/"+ref.Name] = true
		}
	}
	for _, pod := range l.objects.Pods {
		add(pod)
	}
	for i := range l.workloads {
		add(&l.workloads[i].meta)
	}
	return out
}

// placements returns the node of each pod of w; "" is that of the template.
func (l *loader) placements(w workload, node string) []string {
	if !w.perNode {
		n := 1
		if w.count != nil {
			n = int(*w.count)
		}
		// One more than allowed is enough to be refused.
		return slices.Repeat([]string{node}, min(n, maxPods+1))
	}
	var out []string
	wanted := labels.SelectorFromSet(w.template.Spec.NodeSelector)
	known := node == ""
	for _, n := range l.objects.Nodes {
		known = known || n.Name == node
		if wanted.Matches(labels.Set(n.Labels)) {
			out = append(out, n.Name)
		}
	}
	if !known || len(out) == 0 {
		out = append(out, node)
	}
	return out
}

// owner is the reference of its pods to a workload.
func (w workload) owner() []metav1.OwnerReference {
	controller := true
	return []metav1.OwnerReference{{
		APIVersion: kinds[w.kind].version, Kind: w.kind, Name: w.meta.Name,
		UID: uid(w.kind, w.meta.Namespace, w.meta.Name), Controller: &controller,
	}}
}

// pod makes one pod. It shares what all pods of the workload have: there may be thousands.
func (w workload) pod(name, node string, owner []metav1.OwnerReference) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.meta.Namespace, Name: name, Labels: w.template.Labels, Annotations: w.template.Annotations,
			CreationTimestamp: w.meta.CreationTimestamp, OwnerReferences: owner,
		},
		Spec: w.template.Spec,
	}
	if pod.Spec.NodeName == "" {
		pod.Spec.NodeName = node
	}
	return pod
}
