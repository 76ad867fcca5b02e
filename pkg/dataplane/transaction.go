package dataplane

import (
	"context"
	"errors"
	"time"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// Transaction is what changed of the objects of the cluster. It is
// built by one goroutine and not used any more once it was applied.
type Transaction struct {
	desired.Objects
	// Yield says whether the next transaction is due; nil means never. It is called after each
	// endpoint that is read or updated on its own, as long as others wait. Once it returns true
	// they are left to the next transaction, but for one update, as every transaction gets on.
	Yield func() bool
}

// NewTransaction returns an empty transaction. Applying an empty one retries
// what is due.
func NewTransaction() *Transaction { return &Transaction{Objects: desired.NewObjects()} }

// ApplyDataplane applies a transaction to the desired state and programs what differs.
// It is the only way in for writes and runs one at a time.
//
// What HNS refuses or does not answer is in the report, stays staged, and is
// tried again by a later transaction, an empty one after Report.RetryAfter at
// the latest. The error is ctx's; the transaction is staged even then.
func (d *Dataplane) ApplyDataplane(ctx context.Context, tx *Transaction) (state.Report, error) {
	d.apply <- struct{}{}
	defer func() { <-d.apply }()
	r := d.begin(ctx, tx)
	defer d.unlock()
	r.stage()
	r.read()
	if !r.cfg.DryRun {
		r.writeSets(r.planSets())
		r.writeEndpoints()
		r.removeSets()
	}
	return r.record(), ctx.Err()
}

// run is a transaction that runs: what it asked of HNS, and what came back. Its methods hold the
// state lock when they are called, and when they return.
type run struct {
	*nodeState
	dp      *Dataplane
	ctx     context.Context
	tx      *Transaction
	started time.Time

	changes desired.Changes
	calls   map[string]int
	written map[written]bool
	busy    time.Duration // of HNS
	errs    []error

	yielded    bool   // the rest is left to the next transaction
	handle     string // endpoint whose requests share a handle of HNS, "" for none
	searched   int    // requests for suspects, and probes
	isolated   bool   // open endpoints were isolated, as a request for sets failed
	setsFailed bool   // HNS did not do its part of the writing of sets
}

// written is an object that HNS was asked to write: the id of a set with the verb, or the GUID
// of an endpoint.
type written struct {
	verb hns.Verb // "" for an endpoint
	id   string
}

// begin takes the state lock for a transaction, which ends with unlock. The caller holds apply.
func (d *Dataplane) begin(ctx context.Context, tx *Transaction) *run {
	d.progress.Begin()
	d.lock()
	n := d.node
	n.cache.Advance(n.clock)
	n.endpoints.Begin(n.generation, n.clock)
	return &run{nodeState: n, dp: d, ctx: ctx, tx: tx, started: n.clock, calls: map[string]int{}, written: map[written]bool{}}
}

// ask makes a request of HNS, without the state lock. It counts the request, and keeps its
// error. An endpoint that is gone is no error.
func (r *run) ask(req hns.Request) (res hns.Result) {
	r.calls[req.Op]++
	if !hns.ReadsOnly(req.Op) {
		for _, s := range req.Sets {
			r.written[written{req.Verb(), s.ID}] = true
		}
		if req.Endpoint != "" {
			r.written[written{id: req.Endpoint}] = true
		}
	}
	r.unlocked(func() {
		defer r.progress.Call(req.Op)()
		began := r.dp.now()
		res = req.Do(r.ctx, r.dp.client)
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

// hold has the requests for an endpoint share a handle of HNS until release. Only one endpoint
// is held at a time.
func (r *run) hold(endpoint string) (release func()) {
	if r.handle == endpoint {
		return func() {} // it is held already
	}
	r.handle = endpoint
	closeHandle := r.dp.client.Hold(r.ctx, endpoint)
	return func() {
		r.handle = ""
		r.unlocked(closeHandle) // it may be a call of HNS
	}
}

// yields reports whether the rest is left to the next transaction; left are the endpoints that
// wait.
func (r *run) yields(left int) bool {
	if !r.yielded && left > 0 && r.tx.Yield != nil {
		r.unlocked(func() { r.yielded = r.tx.Yield() })
	}
	return r.yielded
}
