package manifest

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxPods limits the pods of all workloads, to detect typing errors in replicas. Kubernetes supports up to
// 150,000 pods.
const maxPods = 150_000

// Workload is an object that creates pods.
type Workload struct {
	Kind, Namespace, Name string
	// Count is the number of pods. nil means that the manifest has no number: one pod for a new workload,
	// no change for an existing one.
	Count *int32
	// PerNode means one pod for each node that Matches, instead of Count.
	PerNode bool

	at       place
	owner    []metav1.OwnerReference // the owner reference of its pods
	template corev1.PodTemplateSpec
}

// ID returns the kind and the full name.
func (w *Workload) ID() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// workload adds a workload. counter is the name of the field with its count, which is in the same struct as
// the template: in spec, or in the nested fields that below names.
func (l *loader) workload(s source, meta metav1.Object, w Workload, counter string, below ...string) field.ErrorList {
	spec := field.NewPath("spec", below...)
	if w.Count != nil && *w.Count < 0 {
		return invalid(spec.Child(counter), "%d is negative; use 0 or more", *w.Count)
	}
	w.Kind, w.Namespace, w.Name, w.at = s.kind, meta.GetNamespace(), meta.GetName(), s.place
	w.owner = []metav1.OwnerReference{*metav1.NewControllerRef(meta, schema.FromAPIVersionAndKind(kinds[w.Kind].version, w.Kind))}
	l.objects.Workloads = append(l.objects.Workloads, w)
	l.objects.Makers[w.ID()] = owner(meta)
	template := spec.Child("template")
	errs := metav1validation.ValidateLabels(w.template.Labels, template.Child("metadata", "labels"))
	return append(errs, checkPodSpec(&w.template.Spec, template.Child("spec"))...)
}

// compareWorkloads sorts StatefulSets first, because their pods have fixed names.
func compareWorkloads(a, b Workload) int {
	rank := map[string]int{"StatefulSet": -1}
	return cmp.Or(cmp.Compare(rank[a.Kind], rank[b.Kind]), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// owner returns the controller of an object, as kind and full name; "" for none.
func owner(o metav1.Object) string {
	if ref := metav1.GetControllerOf(o); ref != nil {
		return ref.Kind + " " + o.GetNamespace() + "/" + ref.Name
	}
	return ""
}

// Pod returns a pod of the workload, without a status. The pods of a workload share labels,
// annotations, spec and owner, because there may be thousands.
func (w *Workload) Pod(name, node string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: name, Labels: w.template.Labels, Annotations: w.template.Annotations,
			OwnerReferences: w.owner,
		},
		Spec: w.template.Spec,
	}
	pod.Spec.NodeName = cmp.Or(pod.Spec.NodeName, node)
	return pod
}

// Wanted returns the desired number of pods of a workload that has now pods. It is at most one more than
// the limit of TooMany.
func (w *Workload) Wanted(now int) int {
	if w.Count != nil {
		return min(int(*w.Count), maxPods+1)
	}
	return max(now, 1)
}

// Matches reports whether pods of the workload may run on a node with these labels.
func (w *Workload) Matches(node map[string]string) bool {
	return labels.SelectorFromSet(w.template.Spec.NodeSelector).Matches(labels.Set(node))
}

// TooMany returns an error if the given number of pods is more than a cluster supports.
func (w *Workload) TooMany(pods int) error {
	if pods <= maxPods {
		return nil
	}
	return w.at.fail("spec", "makes more than %d pods in total; use fewer", maxPods)
}
