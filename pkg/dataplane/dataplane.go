package dataplane

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/progress"
	"github.com/winnpm/winnpm/pkg/state"
)

// Dataplane programs one node. Its methods are safe for concurrent use. It is a shell:
// it makes the calls of HNS that its core asks for, one after the other.
type Dataplane struct {
	client hns.Client
	now    func() time.Time

	// apply is held for a whole ApplyDataplane: it makes it the one writer. Taken
	// before mu.
	apply sync.Mutex

	progress *progress.Notes // of the transaction that holds apply; read without a lock
	bell     bell            // rings when the core has got on: it took a result, or a transaction ended

	mu   sync.Mutex // guards core; never held across a call of HNS
	core *core
}

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
	d := &Dataplane{client: cfg.Client, now: cfg.Now, progress: progress.New(cfg.Now)}
	cfg.Client, cfg.Now = nil, nil
	d.core = newCore(cfg, d.now(), d.progress)
	return d
}

// ApplyDataplane folds a transaction into the state and programs what differs.
// It is the only way in for writes and runs one at a time.
//
// What HNS refuses or does not answer is in the report, stays staged, and is
// tried again by a later transaction, an empty one after Report.RetryAfter at
// the latest. The error is ctx's; the transaction is staged even then.
func (d *Dataplane) ApplyDataplane(ctx context.Context, tx *Transaction) (state.Report, error) {
	d.apply.Lock()
	defer d.apply.Unlock()
	d.progress.Begin()
	d.with(func(c *core) { c.Begin(tx) })
	defer d.with((*core).Drop) // it has ended, unless the client panics
	h := handle{client: d.client}
	defer h.release()
	for {
		var req Request
		var more bool
		d.with(func(c *core) { req, more = c.Next(ctx.Err() != nil) })
		d.bell.ring()
		if !more {
			return d.core.report, ctx.Err()
		}
		if req.Turns > 0 {
			res := tx.turn(req)
			d.with(func(c *core) { c.Done(res) })
			continue
		}
		h.share(ctx, req)
		if req.Op == "" {
			continue
		}
		res := d.ask(ctx, req.Request)
		d.with(func(c *core) { c.Done(res) })
	}
}

// ask makes a request. While it does, a transaction waits for HNS, and only then.
func (d *Dataplane) ask(ctx context.Context, req hns.Request) Result {
	defer d.progress.Call(req.Op)()
	began := d.now()
	res := Result{Result: req.Do(ctx, d.client)}
	res.Took = d.now().Sub(began)
	return res
}

// with lends the core to do, which makes no call of HNS.
func (d *Dataplane) with(do func(*core)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.core.tick(d.now())
	do(d.core)
}

// handle is the handle of HNS that requests share, if they do.
type handle struct {
	client   hns.Client
	endpoint string // "" for none
	close    func()
}

// share has a request use the handle that is open, or a new one, if it is to. One that
// it does not use is closed.
func (h *handle) share(ctx context.Context, req Request) {
	if h.endpoint != "" && (!req.Shared || req.Endpoint != h.endpoint) {
		h.release()
	}
	if req.Shared && h.endpoint == "" {
		h.endpoint, h.close = req.Endpoint, h.client.Hold(ctx, req.Endpoint)
	}
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
