package controllers

import (
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/desired"
)

// arrivals knows which local pods have come with an address. It belongs to the
// goroutine of the pods' informer.
type arrivals map[desired.PodKey]identity

// identity is what gives a pod of a name an endpoint of its own.
type identity struct {
	uid  types.UID
	addr netip.Addr
}

// comes takes the state of a pod, nil when the pod is gone. It reports whether the pod is
// new on this node: such a pod is open until its endpoint is written.
func (a arrivals) comes(key desired.PodKey, p *desired.Pod) bool {
	if p == nil || !p.Local || p.HostNetwork || p.Finished || !p.Addr.IsValid() {
		delete(a, key)
		return false
	}
	is := identity{p.UID, p.Addr}
	if a[key] == is {
		return false
	}
	a[key] = is
	return true
}

// finishedPods records which pods had finished before they were deleted, until the worker takes
// them: the worker may never see a pod finished, and a pod that did not finish may run on.
type finishedPods struct {
	mu   sync.Mutex // guards pods
	pods map[desired.PodKey]ended
}

// ended is what is known of the deleted pods of one name.
type ended struct {
	uid      types.UID // of the last one
	finished bool      // it had finished
	running  bool      // one before it had not
}

func newFinishedPods() *finishedPods { return &finishedPods{pods: map[desired.PodKey]ended{}} }

// gone records a last state of a pod that is deleted. A pod may have two.
func (f *finishedPods) gone(p *desired.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, known := f.pods[p.Key()]
	if known && e.uid != p.UID {
		e = ended{running: e.running || !e.finished}
	}
	e.uid, e.finished = p.UID, e.finished || p.Finished
	f.pods[p.Key()] = e
}

// take reports whether all deleted pods of a name had finished, and forgets them.
func (f *finishedPods) take(key desired.PodKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.pods[key]
	delete(f.pods, key)
	return e.finished && !e.running
}
