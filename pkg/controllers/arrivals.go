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

// finishedPods are the pods that finished before they were deleted, until the worker takes them: it
// may never see them finished, and a pod that did not finish may run on.
type finishedPods struct {
	mu   sync.Mutex // guards keys
	keys map[desired.PodKey]bool
}

func newFinishedPods() *finishedPods { return &finishedPods{keys: map[desired.PodKey]bool{}} }

// gone takes a last state of a pod that is deleted.
func (f *finishedPods) gone(p *desired.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.Finished {
		f.keys[p.Key()] = true
	}
}

// take reports whether a pod that is no more had finished, and forgets it.
func (f *finishedPods) take(key desired.PodKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	is := f.keys[key]
	delete(f.keys, key)
	return is
}
