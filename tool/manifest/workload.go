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

// Workload is an object that makes pods.
type Workload struct {
	Kind, Namespace, Name string
	Selector              *metav1.LabelSelector // nil: the API server makes it
	// Count is how many; nil: the text does not say it, which means one of a new *Workload,
	// and as many as there are of another.
	Count *int32
	// PerNode: one for each node that Matches, instead of Count.
	PerNode bool

	at       place
	meta     metav1.Object
	template corev1.PodTemplateSpec
}

// id returns the kind and the full name.
func (w *Workload) id() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// workload notes an object that makes pods. counter is the field of w.Count, beside the template
// in spec or below it.
func (l *loader) workload(s source, meta metav1.Object, w Workload, counter string, below ...string) field.ErrorList {
	spec := field.NewPath("spec", below...)
	if w.Count != nil && *w.Count < 0 {
		return invalid(spec.Child(counter), "%d is negative; use 0 or more", *w.Count)
	}
	w.Kind, w.Namespace, w.Name, w.at, w.meta = s.kind, meta.GetNamespace(), meta.GetName(), s.place, meta
	l.workloads = append(l.workloads, w)
	return checkTemplate(w.Selector, &w.template, spec)
}

// compareWorkloads orders StatefulSets first: their pods have these very names in a cluster.
func compareWorkloads(a, b Workload) int {
	rank := func(w Workload) int {
		if w.Kind == "StatefulSet" {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// expand makes the pods of the workloads. Names that are taken are passed over. A workload whose
// pods or replica sets are in the text too, as in what kubectl get prints, has
// made its pods already.
func (l *loader) expand(node string) error {
	taken := map[string]bool{}
	for _, pod := range l.objects.Pods {
		taken[pod.Namespace+"/"+pod.Name] = true
	}
	made := l.owners()
	for i := range l.workloads {
		w := &l.workloads[i]
		if made[w.id()] {
			continue
		}
		nodes := l.placements(w, node)
		if len(taken)+len(nodes) > maxPods {
			return w.at.fail("spec", "makes %d pods, more than %d in total; use fewer", len(nodes), maxPods)
		}
		number, owner := 0, w.owner()
		for _, on := range nodes {
			name := fmt.Sprintf("%s-%d", w.Name, number)
			for taken[w.Namespace+"/"+name] {
				number++
				name = fmt.Sprintf("%s-%d", w.Name, number)
			}
			if problems := apivalidation.NameIsDNSSubdomain(name, false); len(problems) > 0 {
				return w.at.fail("metadata.name", "makes the pod name %q: %s", name, problems[0])
			}
			taken[w.Namespace+"/"+name] = true
			l.objects.Pods = append(l.objects.Pods, w.pod(name, on, owner))
		}
	}
	return nil
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
		add(l.workloads[i].meta)
	}
	return out
}

// placements returns the node of each pod of w; "" is that of the template.
func (l *loader) placements(w *Workload, node string) []string {
	if !w.PerNode {
		n := 1
		if w.Count != nil {
			n = int(*w.Count)
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
func (w *Workload) owner() []metav1.OwnerReference {
	controller := true
	return []metav1.OwnerReference{{
		APIVersion: kinds[w.Kind].version, Kind: w.Kind, Name: w.Name,
		UID: uid(w.Kind, w.Namespace, w.Name), Controller: &controller,
	}}
}

// pod makes one pod. It shares what all pods of the workload have: there may be thousands.
func (w *Workload) pod(name, node string, owner []metav1.OwnerReference) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: name, Labels: w.template.Labels, Annotations: w.template.Annotations,
			CreationTimestamp: w.meta.GetCreationTimestamp(), OwnerReferences: owner,
		},
		Spec: w.template.Spec,
	}
	if pod.Spec.NodeName == "" {
		pod.Spec.NodeName = node
	}
	return pod
}
