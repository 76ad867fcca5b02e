package manifest

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Maker is what is known of an object that makes pods.
type Maker struct {
	Selector *metav1.LabelSelector // nil: the API server makes it
	Owner    string                // what has made it, by kind and namespace/name; "" for nothing
}

// makers notes what makes pods.
func (l *loader) makers() {
	if len(l.workloads) > 0 {
		l.objects.Makers = make(map[string]Maker, len(l.workloads))
	}
	for i := range l.workloads {
		w := &l.workloads[i]
		m := Maker{Selector: w.selector}
		if ref := metav1.GetControllerOf(&w.meta); ref != nil {
			m.Owner = ref.Kind + " " + w.meta.Namespace + "/" + ref.Name
		}
		l.objects.Makers[w.kind+" "+w.meta.Namespace+"/"+w.meta.Name] = m
	}
}

// Workload is an object that makes pods.
type Workload struct {
	Kind, Namespace, Name string
	Selector              *metav1.LabelSelector // nil: the API server makes it
	// Count is how many; nil: the text does not say it, which means one of a new workload,
	// and as many as there are of another.
	Count *int32
	// PerNode: one for each node that Matches, instead of Count.
	PerNode bool

	made workload
}

// Wanted is how many pods it has afterwards that has some now; one more than a cluster can
// have is enough to be refused.
func (w *Workload) Wanted(now int) int {
	if w.Count != nil {
		return min(int(*w.Count), maxPods+1)
	}
	return max(now, 1)
}

// Pod returns a pod of the workload, without a status.
func (w *Workload) Pod(name, node string) *corev1.Pod {
	pod := w.made.pod(name, node, w.made.owner())
	identify("Pod", pod)
	return pod
}

// Matches reports whether pods may be on a node with these labels.
func (w *Workload) Matches(node map[string]string) bool {
	return labels.SelectorFromSet(w.made.template.Spec.NodeSelector).Matches(labels.Set(node))
}

// TooMany is the error about a workload that brings a cluster more pods than one can have.
func (w *Workload) TooMany(pods int) error {
	if pods <= maxPods {
		return nil
	}
	return w.made.fail(field.NewPath("spec"), "makes more than %d pods in total; use fewer", maxPods)
}

// export hands out the workloads as they are, but for those that another workload has made: that
// one says what they are.
func (l *loader) export() {
	for _, w := range l.workloads {
		if metav1.GetControllerOf(&w.meta) != nil {
			continue
		}
		l.objects.Workloads = append(l.objects.Workloads, Workload{
			Kind: w.kind, Namespace: w.meta.Namespace, Name: w.meta.Name, Selector: w.selector, Count: w.count, PerNode: w.perNode,
			made: w,
		})
	}
	slices.SortFunc(l.objects.Workloads, func(a, b Workload) int {
		// First those whose pods have these very names in a cluster.
		return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}
