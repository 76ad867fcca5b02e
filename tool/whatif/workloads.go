package whatif

import (
	"cmp"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/tool/explain"
)

// workload is one of two states of a cluster.
type workload struct {
	explain.Workload
	there [2]bool // before and after
}

// workloads returns those of two states of a cluster, sorted by name. Pods that are new or
// deleted are workloads of their own; a pod that got another address is one of each.
func workloads(before, after *explain.Cluster) []workload {
	old, now := addressesOf(before), addressesOf(after)
	var out []workload
	add := func(w explain.Workload, mark string, there [2]bool, has func(pod string) bool) {
		if w.Pods = slices.DeleteFunc(slices.Clone(w.Pods), func(pod string) bool { return !has(pod) }); len(w.Pods) > 0 {
			w.Name += mark
			out = append(out, workload{w, there})
		}
	}
	stays := func(pod string) bool { return old[pod] == now[pod] }
	moves := func(pod string) bool { return old[pod] != now[pod] }
	for _, w := range explain.Workloads(before, after) {
		add(w, "", [2]bool{true, true}, stays)
		add(w, " (deleted)", [2]bool{true, false}, moves)
	}
	if !maps.Equal(old, now) {
		for _, w := range explain.Workloads(after, before) {
			add(w, " (new)", [2]bool{false, true}, moves)
		}
	}
	slices.SortStableFunc(out, func(a, b workload) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// addressesOf returns the addresses that pods own.
func addressesOf(c *explain.Cluster) map[string]string {
	out := map[string]string{}
	d := c.Dump()
	for i := range d.Pods {
		if addr, ok := c.Owns(&d.Pods[i]); ok {
			out[d.Pods[i].Pod] = addr.String()
		}
	}
	return out
}
