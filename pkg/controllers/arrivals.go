package controllers

import (
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/desired"
)

// arrivals has the local pods that were seen with an address. Only the goroutine of the pod
// informer uses it.
type arrivals map[desired.PodKey]identity

// identity tells pods of the same name apart: each identity has its own endpoint.
type identity struct {
	uid  types.UID
	addr netip.Addr
}

// comes records the state of a pod; nil means that the pod is gone. It reports whether the pod is
// new on this node: a new pod is open until its endpoint is written.
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

// finishedPods records which deleted pods had finished, until the worker asks. The worker itself
// may never see the finished state, and it must know: the containers of an unfinished pod may run on.
type finishedPods struct {
	mu   sync.Mutex // guards pods
	pods map[desired.PodKey]ended
}

// ended describes the deleted pods of one name.
type ended struct {
	uid      types.UID // UID of the last deleted pod
	finished bool      // the last deleted pod had finished
	running  bool      // an earlier deleted pod had not finished
}

func newFinishedPods() *finishedPods { return &finishedPods{pods: map[desired.PodKey]ended{}} }

// gone records the last state of a deleted pod. The informer may call it twice for one pod: with
// the state in its store, and with the state in the delete event.
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

// take reports whether all recorded pods of a name had finished, and removes their records.
func (f *finishedPods) take(key desired.PodKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.pods[key]
	delete(f.pods, key)
	return e.finished && !e.running
}
