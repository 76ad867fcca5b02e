package controllers

import (
	"k8s.io/client-go/tools/cache"
)

// Kind says what a key stands for.
type Kind uint8

// The kinds. The last two name no object: they wake the worker.
const (
	KindPod Kind = iota + 1
	KindNamespace
	KindPolicy
	KindNode
	KindObservation // the reconciler has read HNS
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
	case KindObservation:
		return "observation"
	case KindRetry:
		return "retry"
	}
	return "unknown"
}

// Key names something that needs a sync.
type Key struct {
	Kind      Kind
	Namespace string
	Name      string
}

// storeKey is the key's spelling in an informer's store.
func (k Key) storeKey() string {
	return cache.ObjectName{Namespace: k.Namespace, Name: k.Name}.String()
}

// keyOf returns the key of an object that a handler was given. Where a delete
// was missed the handler gets a tombstone in its place, which knows the key.
func keyOf(kind Kind, obj any) (Key, bool) {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return Key{}, false
	}
	return Key{Kind: kind, Namespace: name.Namespace, Name: name.Name}, true
}
