package controllers

import (
	"fmt"
	"unique"

	"github.com/winnpm/winnpm/pkg/desired"
)

// interner gives equal labels and ports of pods one place in memory. Pods of a workload have
// the same labels and ports, and decoding makes new ones for each pod. When the interner is full it
// forgets everything; a workload then has one more copy. It is not safe for concurrent use.
type interner struct {
	pods  map[string]*desired.Pod // a pod with these labels and ports, by their text
	bytes int                     // of the texts
}

// internedBytes bounds what an interner remembers, so that pods with labels of their own do not fill the
// memory. Few clusters have more workloads that change alternately than fit into it.
const internedBytes = 2 << 20

func newInterner() *interner { return &interner{pods: map[string]*desired.Pod{}} }

// pod replaces what a pod can share with other pods. It does not change what the pod had.
func (in *interner) pod(p *desired.Pod) {
	p.Namespace, p.Node = unique.Make(p.Namespace).Value(), unique.Make(p.Node).Value()
	text := fmt.Sprintf("%#v %#v", p.Labels, p.Ports) // sorted and quoted
	if known := in.pods[text]; known != nil {
		p.Labels, p.Ports = known.Labels, known.Ports
		return
	}
	own := make(map[string]string, len(p.Labels))
	for k, v := range p.Labels {
		own[unique.Make(k).Value()] = unique.Make(v).Value()
	}
	p.Labels = own
	if in.bytes += len(text); in.bytes > internedBytes {
		clear(in.pods)
		in.bytes = len(text)
	}
	in.pods[text] = &desired.Pod{Labels: p.Labels, Ports: p.Ports}
}
