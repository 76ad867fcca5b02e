package controllers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// podLister is a source that lists pods without ever having the whole list.
type podLister interface {
	// ListEach passes on every pod of a list, in the order of the list.
	ListEach(ctx context.Context, options metav1.ListOptions, yield func(*corev1.Pod) error) (metav1.ListMeta, error)
}

// keptList is a list of what a store keeps, for a Reflector, which passes it on
// to the store.
type keptList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []*keptItem
}

// DeepCopyObject implements runtime.Object. Nobody changes what is kept.
func (l *keptList) DeepCopyObject() runtime.Object { return l }

type keptItem struct {
	metav1.TypeMeta
	value any
}

// DeepCopyObject implements runtime.Object. Nobody changes what is kept.
func (i *keptItem) DeepCopyObject() runtime.Object { return i }

// listKept lists what keep makes of each pod.
func listKept(ctx context.Context, from podLister, options metav1.ListOptions, keep cache.TransformFunc) (runtime.Object, error) {
	list := &keptList{}
	meta, err := from.ListEach(ctx, options, func(pod *corev1.Pod) error {
		value, err := keep(pod)
		if err == nil {
			list.Items = append(list.Items, &keptItem{value: value})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	list.ListMeta = meta
	return list, nil
}
