package manifest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// makers notes what makes pods, and what made that.
func (l *loader) makers() {
	if len(l.workloads) > 0 {
		l.objects.Makers = make(map[string]string, len(l.workloads))
	}
	for i := range l.workloads {
		w := &l.workloads[i]
		owner := ""
		if ref := metav1.GetControllerOf(w.meta); ref != nil {
			owner = ref.Kind + " " + w.Namespace + "/" + ref.Name
		}
		l.objects.Makers[w.id()] = owner
	}
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
	pod := w.pod(name, node, w.owner())
	identify("Pod", pod)
	return pod
}

// Matches reports whether pods may be on a node with these labels.
func (w *Workload) Matches(node map[string]string) bool {
	return labels.SelectorFromSet(w.template.Spec.NodeSelector).Matches(labels.Set(node))
}

// TooMany is the error about a workload that brings a cluster more pods than one can have.
func (w *Workload) TooMany(pods int) error {
	if pods <= maxPods {
		return nil
	}
	return w.at.fail("spec", "makes more than %d pods in total; use fewer", maxPods)
}

// export hands out the workloads as they are, but for those that another workload has made: that
// one says what they are.
func (l *loader) export() {
	for _, w := range l.workloads {
		if metav1.GetControllerOf(w.meta) == nil {
			l.objects.Workloads = append(l.objects.Workloads, w)
		}
	}
}
