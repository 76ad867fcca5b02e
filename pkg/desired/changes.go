package desired

import (
	"cmp"
	"slices"

	"github.com/winnpm/winnpm/pkg/state"
)

// The kinds of objects in a Change.
const (
	changedPod           = "pod"
	changedNamespace     = "namespace"
	changedPolicy        = "policy"
	changedNode          = "node" // its addresses
	changedClusterPolicy = "clusterpolicy"
)

// Changes counts the objects that changed, by kind and operation; Count is not used in its keys.
type Changes map[state.Change]int

// add counts an object that was and is there or not. One that never was is no
// change.
func (c Changes) add(kind string, was, is bool) {
	switch {
	case !was && is:
		c[state.Change{Kind: kind, Operation: "create"}]++
	case was && is:
		c[state.Change{Kind: kind, Operation: "update"}]++
	case was:
		c[state.Change{Kind: kind, Operation: "delete"}]++
	}
}

// List returns the counts by kind and operation.
func (c Changes) List() []state.Change {
	var out []state.Change
	for change, n := range c {
		change.Count = n
		out = append(out, change)
	}
	slices.SortFunc(out, func(a, b state.Change) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Operation, b.Operation))
	})
	return out
}
