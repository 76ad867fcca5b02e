package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/state"
)

// ObjectChange is what becomes of an object that is no policy.
type ObjectChange struct {
	Kind   string `json:"kind"`
	Object string `json:"object"` // namespace/name, or the name
	// Change is new, changed, unchanged or deleted. Of a live cluster nobody lists workloads: one
	// that had no pod and gets some is new, and one that has none before and after is unchanged.
	Change string `json:"change"`
	// Pods are its, or those of its namespace: those that are there afterwards, and those
	// that are deleted. New and Deleted are among them.
	Pods    int `json:"pods"`
	New     int `json:"new,omitempty"`
	Deleted int `json:"deleted,omitempty"`
}

// sortedObjects sorts by kind and name. It is never nil.
func sortedObjects(list []ObjectChange) []ObjectChange {
	out := append([]ObjectChange{}, list...)
	slices.SortFunc(out, func(a, b ObjectChange) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object))
	})
	return out
}

// replaceEndpoints deletes the endpoints of the pods that a change deletes, and creates those of
// its new pods.
func (p *played) replaceEndpoints(before World, c Change, local func(Pod) bool) error {
	old, now := map[string]bool{}, map[string]bool{}
	for _, ep := range before.endpoints(local) {
		old[ep.ID] = true
	}
	after := c.After.endpoints(local)
	for _, ep := range after {
		now[ep.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(old)) {
		if now[id] {
			continue
		}
		if err := p.sim.DeleteEndpoint(id); err != nil {
			return fmt.Errorf("endpoint %s: %w", id, err)
		}
	}
	return plug(p.sim, slices.DeleteFunc(after, func(ep plugged) bool { return old[ep.ID] }))
}

// noteLost adds the policies that select a pod before a change of others and none after it:
// these are idle now.
func noteLost(policies []PolicyChange, before *state.Dump, now map[string]bool) []PolicyChange {
	was, there := idle(before), map[string]bool{}
	for _, p := range before.Policies {
		there[p.Policy] = true
	}
	for _, p := range before.ClusterPolicies {
		there[clusterPrefix+p.Name] = true
	}
	for name := range now {
		if was[name] || !there[name] {
			continue
		}
		if i := slices.IndexFunc(policies, func(p PolicyChange) bool { return p.Policy == name }); i >= 0 {
			policies[i].NoLonger = true
			continue
		}
		policies = append(policies, PolicyChange{Policy: name, Change: unchanged, SelectsNothing: true, NoLonger: true})
	}
	slices.SortFunc(policies, func(a, b PolicyChange) int { return cmp.Compare(a.Policy, b.Policy) })
	return policies
}
