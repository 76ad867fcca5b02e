package controllers

import (
	"hash/maphash"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
)

// interner gives equal parts of pods one place in memory. Pods of a workload have the same
// labels and ports, and decoding makes new ones for each pod. It remembers only what was
// used last. So labels that are unique to a pod cost no more than the pod, and what nobody
// uses any more is forgotten. It is not safe for concurrent use.
type interner struct {
	seed   maphash.Seed
	texts  recent[string]
	labels recent[map[string]string]
	ports  recent[[]desired.PodPort]
}

const (
	// recentParts is how many parts of each kind are remembered at least. Few clusters
	// have more workloads that change alternately. Twice as many may be remembered.
	recentParts = 4096
	// recentBytes is how much text the remembered parts of a kind have at most. Twice as
	// much may be remembered. Without the bound, one pod that gets new labels all the time
	// would fill the memory.
	recentBytes = 2 << 20
)

func newInterner() *interner {
	return &interner{
		seed:   maphash.MakeSeed(),
		texts:  recent[string]{size: recentParts, cost: func(s string) int { return len(s) }},
		labels: recent[map[string]string]{size: recentParts, cost: textOf},
		ports:  recent[[]desired.PodPort]{size: recentParts, cost: func(ports []desired.PodPort) int { return 32 * len(ports) }},
	}
}

// pod replaces what a pod may share with others. What it had stays as it is.
func (in *interner) pod(p *desired.Pod) {
	p.Namespace, p.Node = in.text(p.Namespace), in.text(p.Node)
	p.Labels = in.labelSet(p.Labels)
	p.Ports = in.portList(p.Ports)
}

func (in *interner) text(s string) string {
	return in.texts.intern(maphash.String(in.seed, s), s,
		func(a, b string) bool { return a == b },
		func(s string) string { return s })
}

func (in *interner) labelSet(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	var hash uint64
	for k, v := range labels { // in any order
		hash += maphash.Comparable(in.seed, [2]string{k, v})
	}
	return in.labels.intern(hash, labels, maps.Equal, func(labels map[string]string) map[string]string {
		own := make(map[string]string, len(labels))
		for k, v := range labels {
			own[in.text(k)] = in.text(v)
		}
		return own
	})
}

func (in *interner) portList(ports []desired.PodPort) []desired.PodPort {
	if len(ports) == 0 {
		return nil
	}
	hash := uint64(len(ports))
	for _, p := range ports {
		hash = hash*31 + maphash.Comparable(in.seed, p)
	}
	return in.ports.intern(hash, ports, slices.Equal, func(ports []desired.PodPort) []desired.PodPort {
		own := make([]desired.PodPort, len(ports))
		for i, p := range ports {
			own[i] = desired.PodPort{Name: in.text(p.Name), Protocol: policy.Protocol(in.text(string(p.Protocol))), Number: p.Number}
		}
		return own
	})
}

// textOf is what labels have in text.
func textOf(labels map[string]string) int {
	n := 0
	for k, v := range labels {
		n += len(k) + len(v)
	}
	return n
}

// recent remembers the values that were used last: size at least, or what has
// recentBytes, and twice as many at most.
type recent[V any] struct {
	size       int
	cost       func(V) int
	young, old map[uint64]V // by hash
	bytes      int          // of young
}

// intern returns a value that is the same as v: one that is remembered, or what
// of makes of v. Of two values with one hash the last one is remembered.
func (r *recent[V]) intern(hash uint64, v V, same func(a, b V) bool, of func(V) V) V {
	if known, ok := r.young[hash]; ok && same(known, v) {
		return known
	}
	if known, ok := r.old[hash]; ok && same(known, v) {
		v = known
	} else {
		v = of(v)
	}
	if len(r.young) >= r.size || r.young == nil || r.bytes >= recentBytes {
		r.young, r.old, r.bytes = map[uint64]V{}, r.young, 0
	}
	r.young[hash] = v
	r.bytes += r.cost(v)
	return v
}
