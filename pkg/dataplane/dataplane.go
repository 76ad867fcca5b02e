package dataplane

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// Dataplane programs one node. Its methods are safe for concurrent use.
type Dataplane struct {
	now func() time.Time

	// apply is held for a whole ApplyDataplane: it makes it the one writer. Taken
	// before mu.
	apply applyLock
	// call makes a request of a transaction; shared: together with those that follow it
	// for the same endpoint. Tests replace it.
	call   func(ctx context.Context, req hns.Request, shared bool) hns.Result
	handle handle // guarded by apply

	progress *progress // of the transaction that holds apply; read without a lock
	bell     bell      // rings each time a transaction releases mu

	mu   sync.Mutex // guards core; never held across a call of HNS
	core *core
}

// applyLock is a mutex made of a channel: a goroutine that waits for it counts as blocked in a test
// with synthetic time, where the holder may wait for a slow HNS.
type applyLock chan struct{}

func (l applyLock) Lock()   { l <- struct{}{} }
func (l applyLock) Unlock() { <-l }

// New returns a Dataplane that knows nothing yet.
func New(cfg Config) *Dataplane {
	if cfg.MaxBatchedACLs == 0 {
		cfg.MaxBatchedACLs = defaultBatchedACLs
	}
	if cfg.MaxRepairs == 0 {
		cfg.MaxRepairs = defaultRepairs
	}
	cfg.Budgets = cfg.Budgets.OrDefaults()
	cfg.LookPeriod = cmp.Or(cfg.LookPeriod, defaultLookPeriod)
	d := &Dataplane{now: cfg.Now, handle: handle{client: cfg.Client}, progress: &progress{now: cfg.Now}, apply: make(applyLock, 1)}
	d.call = d.handle.call
	cfg.Client, cfg.Now = nil, nil // the state has nothing to call
	d.core = newCore(cfg, d.now(), d.progress)
	return d
}

// lock takes the state lock.
func (d *Dataplane) lock() {
	d.mu.Lock()
	d.core.tick(d.now())
}

// unlock releases the state lock within a transaction, which has got on.
func (d *Dataplane) unlock() {
	d.mu.Unlock()
	d.bell.ring()
}

// with lends the state to do, which makes no call of HNS.
func (d *Dataplane) with(do func(*core)) {
	d.lock()
	defer d.mu.Unlock()
	do(d.core)
}

// handle is the handle of HNS that requests share, if they do.
type handle struct {
	client   hns.Client
	endpoint string // "" for none
	close    func()
}

// call makes a request; with shared over the open handle of its endpoint, or a new one. A handle that
// the request does not use is closed.
func (h *handle) call(ctx context.Context, req hns.Request, shared bool) hns.Result {
	if !shared || req.Endpoint != h.endpoint {
		h.release()
	}
	if shared && h.endpoint == "" {
		h.endpoint, h.close = req.Endpoint, h.client.Hold(ctx, req.Endpoint)
	}
	return req.Do(ctx, h.client)
}

func (h *handle) release() {
	if h.endpoint != "" {
		h.close()
		h.endpoint = ""
	}
}

// Progress returns where the transaction is that runs. It waits for nothing, also
// while the state is locked.
func (d *Dataplane) Progress() state.Progress { return d.progress.Now() }
