package dataplane

import (
	"context"
	"errors"
	"time"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// Transaction has the changed objects of the cluster. One goroutine builds it, and it
// must not be used after it was applied.
type Transaction struct {
	desired.Objects
	// Yield reports whether the next transaction is due; nil means never. It is called without
	// a lock after each endpoint that was read by its GUID or updated, as long as other endpoints
	// wait. When it returns true, they are left to the next transaction. Each transaction makes at
	// least one update.
	Yield func() bool
}

// NewTransaction returns an empty transaction. Applying an empty one makes the reads and writes that
// are due.
func NewTransaction() *Transaction { return &Transaction{Objects: desired.NewObjects()} }

// ApplyDataplane applies a transaction to the desired state and writes the differences to HNS.
// Concurrent calls run one after the other.
//
// The report has the requests that HNS rejected or did not answer. They are tried again by
// a later transaction: callers must apply an empty one after Report.RetryAfter at the latest.
// The error is ctx.Err(); the transaction is staged even then.
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

// run is a running transaction. Its methods are called and return with the state lock held.
type run struct {
	*nodeState
	dp      *Dataplane
	ctx     context.Context
	tx      *Transaction
	started time.Time

	changes []state.ObjectChange // of the desired state
	calls   map[string]int
	alone   map[ipsets.Name]bool // sets that HNS did not remove together with others
	written map[written]bool
	busy    time.Duration // that calls of HNS took
	errs    []error

	yielded    bool   // the other endpoints are left to the next transaction
	handle     string // endpoint whose requests share a handle of HNS, "" for none
	searched   int    // requests that searched for a rejected set, or tried one again
	isolated   bool   // open endpoints were isolated, because a request for sets failed
	setsFailed bool   // sets could not be read or written
}

// written is an object that HNS was asked to write: the id of a set with the verb, or the GUID
// of an endpoint.
type written struct {
	verb hns.Verb // "" for an endpoint
	id   string
}

// begin takes the state lock for a transaction, which ends with unlock. The caller holds apply.
func (d *Dataplane) begin(ctx context.Context, tx *Transaction) *run {
	d.progress.Note("beginning", "", "", "")
	d.lock()
	n := d.node
	n.cache.Now = n.clock
	return &run{nodeState: n, dp: d, ctx: ctx, tx: tx, started: n.clock, calls: map[string]int{}, written: map[written]bool{}, alone: map[ipsets.Name]bool{}}
}

// ask sends a request to HNS without the state lock. It counts the request and records its error,
// unless the error says that the endpoint is gone.
func (r *run) ask(req hns.Request) (res hns.Result) {
	r.calls[req.Op]++
	for _, s := range req.Sets {
		r.written[written{req.Verb(), s.ID}] = true
	}
	if req.Endpoint != "" && req.Op != hns.OpEndpointGet {
		r.written[written{id: req.Endpoint}] = true
	}
	r.unlocked(func() {
		at := r.progress.at
		defer r.progress.move(at)
		at.call = req.Op
		r.progress.move(at)
		began := r.dp.now()
		res = req.Do(r.ctx, r.dp.client)
		r.busy += r.dp.now().Sub(began)
	})
	if err := res.Err; err != nil {
		gone := req.Endpoint != "" && (hns.EndpointGone(err) || errors.Is(err, hns.ErrElsewhere))
		if !gone {
			r.errs = append(r.errs, err)
		}
	}
	return res
}

// unlocked releases the state lock while do runs. Dumps and probes may read the state
// meanwhile. No other transaction changes it, because the apply lock is held.
func (r *run) unlocked(do func()) {
	r.dp.unlock()
	defer r.dp.lock() // also when a client panics
	do()
}

// hold makes the requests for an endpoint share a handle of HNS until release. Only one endpoint
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

// yields reports whether the endpoints that wait are left to the next transaction.
func (r *run) yields() bool {
	if !r.yielded && r.tx.Yield != nil {
		r.unlocked(func() { r.yielded = r.tx.Yield() })
	}
	return r.yielded
}
