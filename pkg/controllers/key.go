package controllers

import (
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/desired"
)

// Kind says what a key stands for.
type Kind uint8

// The kinds. The last one names no object: it wakes the worker.
const (
	KindPod Kind = iota + 1
	KindNamespace
	KindPolicy
	KindNode // this one
	KindClusterPolicy
	KindClusterNode // of all nodes
	KindRetry       // what was put off is due
)

// String returns what the API server calls objects of the kind.
func (k Kind) String() string {
	switch k {
	case KindPod:
		return "pods"
	case KindNamespace:
		return "namespaces"
	case KindPolicy:
		return "networkpolicies"
	case KindNode:
		return "nodes"
	case KindClusterPolicy:
		return clusterResource
	case KindClusterNode:
		return "all nodes"
	case KindRetry:
		return "retry"
	}
	return "unknown"
}

// Key names something that needs a sync.
type Key struct {
	Kind Kind
	cache.ObjectName
}

func keyOfPod(pod desired.PodKey) Key { return Key{KindPod, cache.ObjectName(pod)} }
