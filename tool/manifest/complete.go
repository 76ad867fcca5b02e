package manifest

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// finish sorts the objects, and sets the labels of namespaces.
func (l *loader) finish() {
	o := &l.objects
	byName(o.Namespaces)
	byName(o.Nodes)
	byName(o.Pods)
	byName(o.Policies)
	byName(o.Services)
	byName(o.ClusterPolicies)
	slices.SortFunc(o.Workloads, compareWorkloads)
	for _, ns := range o.Namespaces {
		if ns.Labels == nil {
			ns.Labels = map[string]string{}
		}
		ns.Labels[corev1.LabelMetadataName] = ns.Name
	}
}

func byName[T metav1.Object](list []T) {
	slices.SortFunc(list, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// created is the creation time of objects without one. It is arbitrary but fixed.
var created = metav1.NewTime(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))

// identify sets the UID, which it derives from the name, and the creation time of an object without one.
func identify(kind string, o metav1.Object) {
	// A UUID of version 8, whose content is application-defined.
	b := sha256.Sum256([]byte(kind + "/" + o.GetNamespace() + "/" + o.GetName()))
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	o.SetUID(types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])))
	if t := o.GetCreationTimestamp(); t.IsZero() {
		o.SetCreationTimestamp(created)
	}
}
