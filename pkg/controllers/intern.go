package controllers

import (
	"hash/maphash"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/desired"
)

// interner gives equal labels, ports and names of pods one place in memory. Pods of a workload have
// the same labels and ports, and decoding makes new ones for each pod. When the interner is full it
// forgets everything; a workload then has one more copy. It is not safe for concurrent use.
type interner struct {
	seed  maphash.Seed
	texts map[string]string
	pods  map[uint64]*desired.Pod // a pod with these labels and ports, by their hash
	bytes int                     // of the labels and ports of pods, and of texts
}

// internedBytes bounds what an interner remembers, so that pods with labels of their own do not fill the
// memory. Few clusters have more workloads that change alternately than fit into it.
const internedBytes = 2 << 20

func newInterner() *interner {
	return &interner{seed: maphash.MakeSeed(), texts: map[string]string{}, pods: map[uint64]*desired.Pod{}}
}

// pod replaces what a pod can share with other pods. It does not change what the pod had.
func (in *interner) pod(p *desired.Pod) {
	p.Namespace, p.Node = in.text(p.Namespace), in.text(p.Node)
	if len(p.Labels)+len(p.Ports) == 0 {
		return
	}
	var hash uint64
	for k, v := range p.Labels { // in any order
		hash += maphash.Comparable(in.seed, [2]string{k, v})
	}
	for _, port := range p.Ports {
		hash = hash*31 + maphash.Comparable(in.seed, port)
	}
	if known := in.pods[hash]; known != nil && maps.Equal(known.Labels, p.Labels) && slices.Equal(known.Ports, p.Ports) {
		p.Labels, p.Ports = known.Labels, known.Ports
		return
	}
	own := make(map[string]string, len(p.Labels))
	for k, v := range p.Labels {
		own[in.text(k)] = in.text(v)
	}
	p.Labels = own
	in.pods[hash] = &desired.Pod{Labels: p.Labels, Ports: p.Ports}
	in.grow(p.Size)
}

// text returns a string that is equal to s.
func (in *interner) text(s string) string {
	if known, ok := in.texts[s]; ok {
		return known
	}
	in.texts[s] = s
	in.grow(len(s))
	return s
}

func (in *interner) grow(bytes int) {
	if in.bytes += bytes; in.bytes > internedBytes {
		clear(in.texts)
		clear(in.pods)
		in.bytes = 0
	}
}
