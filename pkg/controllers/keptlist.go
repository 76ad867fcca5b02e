package controllers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// itemLister is a source that lists objects without ever having the whole list.
type itemLister interface {
	// ListEach passes on every object of a list, in the order of the list.
	ListEach(ctx context.Context, options metav1.ListOptions, yield func(runtime.Object) error) (metav1.ListMeta, error)
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

// listKept lists what keep makes of each object.
func listKept(ctx context.Context, from itemLister, options metav1.ListOptions, keep cache.TransformFunc) (runtime.Object, error) {
	list := &keptList{}
	meta, err := from.ListEach(ctx, options, func(object runtime.Object) error {
		value, err := keep(object)
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
