package desired

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// podGroup has the pods of one namespace with the same labels and named ports, as the
// replicas of a workload are. What a policy asks about labels and ports is asked
// once for all of them.
type podGroup struct {
	hash   uint64
	labels map[string]string
	ports  []PodPort
	pods   []*PodState   // in no order
	chosen []ipsets.Name // the computed sets that they are in
	next   *podGroup     // another one of the namespace with this hash
}

// podGroups has the groups of all pods, by namespace and hash.
type podGroups struct {
	hash func(*Pod) uint64
	byNS map[string]map[uint64]*podGroup
}

func newPodGroups(hash func(*Pod) uint64) podGroups {
	return podGroups{hash: hash, byNS: map[string]map[uint64]*podGroup{}}
}

// add puts a pod into its group and reports whether it is the first.
func (x podGroups) add(p *PodState) (first bool) {
	hash := x.hash(p.Pod)
	k := x.byNS[p.Namespace][hash]
	for k != nil && !k.like(p.Pod) {
		k = k.next
	}
	if first = k == nil; first {
		if x.byNS[p.Namespace] == nil {
			x.byNS[p.Namespace] = map[uint64]*podGroup{}
		}
		k = &podGroup{hash: hash, labels: p.Labels, ports: p.Ports, next: x.byNS[p.Namespace][hash]}
		x.byNS[p.Namespace][hash] = k
	}
	p.podGroup, p.at = k, len(k.pods)
	k.pods = append(k.pods, p)
	return first
}

// remove takes a pod out of its group. The pod still says whose it was.
func (x podGroups) remove(p *PodState) {
	k := p.podGroup
	last := k.pods[len(k.pods)-1]
	k.pods[p.at], last.at = last, p.at
	k.pods = slices.Delete(k.pods, len(k.pods)-1, len(k.pods))
	if len(k.pods) > 0 {
		return
	}
	same := x.byNS[p.Namespace]
	var rest *podGroup // without k; their order does not matter
	for other := same[k.hash]; other != nil; {
		next := other.next
		if other != k {
			other.next, rest = rest, other
		}
		other = next
	}
	if same[k.hash] = rest; rest == nil {
		delete(same, k.hash)
	}
	if len(same) == 0 {
		delete(x.byNS, p.Namespace)
	}
}

// replace puts the next state of a pod in the place of the last one.
func (x podGroups) replace(was, is *PodState) {
	is.podGroup, is.at = was.podGroup, was.at
	is.podGroup.pods[is.at] = is
}

// like reports whether a pod of the namespace belongs to the group.
func (k *podGroup) like(p *Pod) bool {
	return maps.Equal(k.labels, p.Labels) && slices.Equal(k.ports, p.Ports)
}

// hashPods returns a hash that is the same for pods that are alike, in whatever
// order a map has their labels.
func hashPods() func(*Pod) uint64 {
	seed := maphash.MakeSeed()
	return func(p *Pod) uint64 {
		var sum uint64
		for k, v := range p.Labels {
			sum += maphash.Comparable(seed, [2]string{k, v})
		}
		for _, port := range p.Ports {
			sum = sum*31 + maphash.Comparable(seed, port)
		}
		return sum
	}
}

// all yields the groups of every namespace.
func (x podGroups) all() iter.Seq[*podGroup] {
	return func(yield func(*podGroup) bool) {
		for namespace := range x.byNS {
			for k := range x.in(namespace) {
				if !yield(k) {
					return
				}
			}
		}
	}
}

// in yields the groups of one namespace.
func (x podGroups) in(namespace string) iter.Seq[*podGroup] {
	return func(yield func(*podGroup) bool) {
		for _, k := range x.byNS[namespace] {
			for ; k != nil; k = k.next {
				if !yield(k) {
					return
				}
			}
		}
	}
}

// serving yields the pods with a named port.
func (x podGroups) serving(name string, proto policy.Protocol) iter.Seq[*PodState] {
	return func(yield func(*PodState) bool) {
		for k := range x.all() {
			if _, ok := portOf(k.ports, name, proto); !ok {
				continue
			}
			for _, p := range k.pods {
				if !yield(p) {
					return
				}
			}
		}
	}
}
