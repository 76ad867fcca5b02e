package dataplane

import (
	"cmp"
	"slices"
)

// Change counts the objects of one kind that a transaction created, updated or
// deleted. An object that comes again as it was is not counted, but a policy,
// which is not compared.
type Change struct {
	Kind      string `json:"kind"`      // pod, namespace, policy, clusterpolicy, node
	Operation string `json:"operation"` // create, update, delete
	Count     int    `json:"count"`
}

// The kinds of objects in a Change.
const (
	changedPod           = "pod"
	changedNamespace     = "namespace"
	changedPolicy        = "policy"
	changedNode          = "node" // its addresses
	changedClusterPolicy = "clusterpolicy"
)

// changes counts them; the Count of its keys is 0.
type changes map[Change]int

// add counts an object that was and is there or not. One that never was is no
// change.
func (c changes) add(kind string, was, is bool) {
	switch {
	case !was && is:
		c[Change{Kind: kind, Operation: "create"}]++
	case was && is:
		c[Change{Kind: kind, Operation: "update"}]++
	case was:
		c[Change{Kind: kind, Operation: "delete"}]++
	}
}

func (c changes) list() []Change {
	var out []Change
	for change, n := range c {
		change.Count = n
		out = append(out, change)
	}
	slices.SortFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Operation, b.Operation))
	})
	return out
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
