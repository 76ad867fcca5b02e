package dataplane

import (
	"context"
	"errors"
	"time"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// ApplyDataplane applies a transaction to the desired state and programs what differs.
// It is the only way in for writes and runs one at a time.
//
// What HNS refuses or does not answer is in the report, stays staged, and is
// tried again by a later transaction, an empty one after Report.RetryAfter at
// the latest. The error is ctx's; the transaction is staged even then.
func (d *Dataplane) ApplyDataplane(ctx context.Context, tx *Transaction) (state.Report, error) {
	d.apply.Lock()
	defer d.apply.Unlock()
	d.progress.Begin()
	defer d.handle.release()
	return d.transact(ctx, tx), ctx.Err()
}

// transact runs the steps of a transaction under the state lock, which they release for each
// call of HNS, and where nothing is asked for long.
func (d *Dataplane) transact(ctx context.Context, tx *Transaction) state.Report {
	d.lock()
	defer d.unlock()
	d.core.generation++
	r := d.begin(ctx, tx)
	r.changes = r.d.stage(tx)
	r.pause()
	r.read()
	if !r.d.cfg.DryRun {
		r.d.progress.Note("writing sets", "", "", "")
		written := r.writeSets(r.planSets())
		r.writeEndpoints()
		r.d.progress.Note("removing sets", "", "", "")
		r.removeSets()
		r.endSets(written)
	}
	r.pause()
	return r.record()
}

// run is one transaction on its way: what it asked of HNS and what came back. Its
// methods hold the state lock when they are called, and when they return.
type run struct {
	dp      *Dataplane
	d       *core
	ctx     context.Context
	tx      *Transaction
	started time.Time
	changes desired.Changes
	calls   map[string]int
	written written
	busy    time.Duration // of HNS
	errs    []error
	turns   int    // endpoints read one by one, or written
	yielded int    // turns after which the rest was left; 0: never
	held    string // endpoint whose requests share a handle, "" for none

	searched int  // requests for suspects, and probes
	shielded bool // newborn endpoints were isolated, as a request for sets failed
}

// begin records that a transaction or a look begins.
func (d *Dataplane) begin(ctx context.Context, tx *Transaction) *run {
	c := d.core
	c.now = c.clock
	c.cache.Advance(c.now)
	c.endpoints.Begin(c.generation, c.now)
	return &run{dp: d, d: c, ctx: ctx, tx: tx, calls: map[string]int{}, started: c.now}
}

// ask makes a request of HNS, without the state lock. It counts the request, and keeps its
// error. An endpoint that is gone is no error.
func (r *run) ask(req hns.Request) (res hns.Result) {
	r.calls[req.Op]++
	r.written.note(req)
	r.unlocked(func() {
		defer r.d.progress.Call(req.Op)()
		began := r.dp.now()
		res = r.dp.call(r.ctx, req, r.held != "" && r.held == req.Endpoint)
		r.busy += r.dp.now().Sub(began)
	})
	gone := req.Endpoint != "" && (hns.EndpointGone(res.Err) || errors.Is(res.Err, hns.ErrElsewhere))
	if res.Err != nil && !gone {
		r.errs = append(r.errs, res.Err)
	}
	return res
}

// unlocked releases the state lock while do runs. Dumps and probes may read the state
// meanwhile. Nothing changes it, because the apply lock is held.
func (r *run) unlocked(do func()) {
	r.dp.unlock()
	defer r.dp.lock() // also when a client panics
	do()
}

// pause lets callers that wait for the state lock have it. A stretch that makes no request,
// and that grows with what tenants write, ends in a pause.
func (r *run) pause() { r.unlocked(func() {}) }

// ending reports whether the transaction is to end: it begins nothing that can wait.
func (r *run) ending() bool { return r.ctx.Err() != nil }

// hold has the requests for an endpoint share a handle of HNS until release. It is
// closed when the next request does not share it, and at the end.
func (r *run) hold(endpoint string) (release func()) {
	r.held = endpoint
	return func() { r.held = "" }
}

// yields ends the turn of an endpoint that was read or written; left are those
// that wait for theirs. It reports whether they are left to the next transaction.
func (r *run) yields(left int) bool {
	r.turns++
	if r.yielded == 0 && left > 0 && r.tx.yield != nil {
		r.unlocked(func() {
			if r.tx.yield(r.turns) {
				r.yielded = r.turns
			}
		})
	}
	return r.yielded > 0
}
