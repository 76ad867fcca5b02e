package controllers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// podItems reads pods.
var podItems = itemKind{
	resource: "pods", list: "PodList",
	whole: func() runtime.Object { return &corev1.PodList{} },
	item: func(content []byte) (runtime.Object, error) {
		pod := &lightPod{}
		return pod, pod.Unmarshal(content)
	},
	add: func(list, item runtime.Object) error {
		into, ok := list.(*corev1.PodList)
		pod, is := podOf(item)
		if !ok || !is {
			return fmt.Errorf("unexpected %T in a list of type %T", item, list)
		}
		into.Items = append(into.Items, *pod)
		return nil
	},
}

// podOf returns the pod that an object is.
func podOf(obj any) (*corev1.Pod, bool) {
	switch o := obj.(type) {
	case *lightPod:
		return &o.Pod, true
	case *corev1.Pod:
		return o, true
	}
	return nil, false
}
