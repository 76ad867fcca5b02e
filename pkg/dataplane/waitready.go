package dataplane

import (
	"context"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
)

// WaitReady returns nil as soon as the endpoint of a pod's sandbox has the rules that the
// pod should have, and HNS shows the pod's address in the sets that it belongs to, and in no
// others, in a state that was staged with the sandbox's round or a later one. When ctx ends
// before, the error says what was missing.
func (d *Dataplane) WaitReady(ctx context.Context, key desired.PodKey, uid types.UID, sandbox state.Sandbox) error {
	for {
		rung := d.bell.next() // before the look, so that nothing is missed after it
		var err error
		d.with(func(c *core) { err = c.endpoints.PodReady(key, uid, sandbox) })
		if err == nil {
			return nil
		}
		select {
		case <-rung:
		case <-ctx.Done():
			return err
		}
	}
}

// HasPodAt reports whether a pod of this node has an address, as far as is known: the API
// server's word or the CNI's. It may be called while a call of HNS is under way.
func (d *Dataplane) HasPodAt(addr netip.Addr) (has bool) {
	d.with(func(c *core) {
		for p := range c.desired.Locals() {
			has = has || p.Addr == addr
		}
	})
	return has
}

// bell wakes everybody who waits for the core to get on. It costs nothing while nobody does.
type bell struct {
	mu   sync.Mutex // guards rung; held for no call
	rung chan struct{}
}

// next returns what the next ring closes.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}
