package controllers

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trim returns the object with nothing but what is read later: a store keeps
// every pod of the cluster, and most of a pod is of no use here. What it is
// given stays as it is; what it returns passes a second time unchanged.
// Anything else, a tombstone for one, comes back as it is.
func trim(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return trimPod(o), nil
	case *corev1.Namespace:
		return &corev1.Namespace{ObjectMeta: trimMeta(o.ObjectMeta)}, nil
	case *corev1.Node:
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion},
			Status:     corev1.NodeStatus{Addresses: o.Status.Addresses},
		}, nil
	case *networkingv1.NetworkPolicy:
		return &networkingv1.NetworkPolicy{ObjectMeta: trimMeta(o.ObjectMeta), Spec: o.Spec}, nil
	}
	return obj, nil
}

func trimPod(p *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: trimMeta(p.ObjectMeta),
		Spec: corev1.PodSpec{
			NodeName:       p.Spec.NodeName,
			HostNetwork:    p.Spec.HostNetwork,
			Containers:     trimContainers(p.Spec.Containers),
			InitContainers: trimContainers(p.Spec.InitContainers),
		},
		Status: corev1.PodStatus{
			Phase:     p.Status.Phase,
			PodIP:     p.Status.PodIP,
			PodIPs:    p.Status.PodIPs,
			StartTime: p.Status.StartTime,
		},
	}
}

func trimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:         m.Namespace,
		Name:              m.Name,
		UID:               m.UID,
		ResourceVersion:   m.ResourceVersion,
		Generation:        m.Generation,
		CreationTimestamp: m.CreationTimestamp,
		DeletionTimestamp: m.DeletionTimestamp,
		Labels:            m.Labels,
	}
}

// trimContainers keeps the containers that name a port.
func trimContainers(containers []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for _, c := range containers {
		var ports []corev1.ContainerPort
		for _, p := range c.Ports {
			if p.Name != "" {
				ports = append(ports, corev1.ContainerPort{Name: p.Name, ContainerPort: p.ContainerPort, Protocol: p.Protocol})
			}
		}
		if len(ports) > 0 {
			out = append(out, corev1.Container{Ports: ports, RestartPolicy: c.RestartPolicy})
		}
	}
	return out
}
