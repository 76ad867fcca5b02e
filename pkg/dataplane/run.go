package dataplane

import (
	"errors"
	"iter"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Request is what the core wants asked of HNS next. One without an Op asks for
// nothing: it only lets others look at the state before the transaction goes on.
type Request struct {
	hns.Request
	// Shared: this request and those that follow it for the same endpoint share a handle
	// of HNS.
	Shared bool
}

// Result is what came of a Request.
type Result struct {
	hns.Result
	Took time.Duration // of HNS
}

// run is one transaction on its way: what it asked of HNS and what came back. Its
// methods are the transaction, written as one sequence of calls. The sequence runs as a
// coroutine of whoever calls Next: ask suspends it until Done has the result.
type run struct {
	d       *core
	tx      *Transaction
	started time.Time
	changes changes
	calls   map[string]int
	written written
	busy    time.Duration // of HNS
	errs    []error
	turns   int // endpoints read one by one, or updated
	yielded int // turns after which the rest was left; 0: never

	searched int  // requests for suspects, and probes
	shielded bool // newborn endpoints were isolated, as a request for sets failed

	next    func() (Request, bool) // resumes the sequence
	stop    func()                 // drops it
	suspend func(Request) bool     // false: it was dropped
	result  Result                 // of the last request
	held    string                 // endpoint whose requests share a handle, "" for none
	ending  bool                   // no more may be begun
	dropped bool
}

// Begin starts a transaction. The one before it has ended, or was dropped.
func (d *core) Begin(tx *Transaction) {
	r := &run{d: d, tx: tx, calls: map[string]int{}, started: d.clock}
	r.next, r.stop = iter.Pull(r.sequence)
	d.run = r
}

// Next returns what to ask of HNS now; false: the transaction has ended, and its report
// is there. When it is to end, it begins nothing that can wait.
func (d *core) Next(ending bool) (Request, bool) {
	d.run.ending = ending
	req, more := d.run.next()
	if !more {
		d.run = nil
	}
	return req, more
}

// Done takes the result of the request that Next returned last.
func (d *core) Done(res Result) { d.run.result = res }

// Drop leaves a transaction that has not ended where it is, as a crash does: the core
// is good for nothing but a look at it then.
func (d *core) Drop() {
	if d.run != nil {
		d.run.stop()
		d.run = nil
	}
}

// errDropped ends a sequence that was dropped.
var errDropped = errors.New("the transaction was dropped")

// sequence is the whole transaction.
func (r *run) sequence(suspend func(Request) bool) {
	defer func() {
		if r.dropped {
			_ = recover() // errDropped
		}
	}()
	d := r.d
	r.suspend = suspend
	d.progress.begin()
	d.generation++
	d.now = r.started
	d.cache.Advance(r.started)
	r.changes = d.stage(r.tx)
	r.pause()

	r.read()

	if !d.cfg.DryRun {
		d.progress.note("writing sets", "", "", "")
		written := r.writeSets()
		r.updatePods()
		d.progress.note("removing sets", "", "", "")
		r.removeSets()
		r.endSets(written)
	}
	d.report = d.outcome(r)
}

// pause lets others look at the state.
func (r *run) pause() { r.suspended(Request{}) }

func (r *run) suspended(req Request) {
	if !r.suspend(req) {
		r.dropped = true
		panic(errDropped)
	}
}

// ask has a request made, counts it, and keeps its error. An endpoint that is gone is
// no error.
func (r *run) ask(req hns.Request) hns.Result {
	r.calls[req.Op]++
	r.written.note(req)
	back := r.d.progress.calls(req.Op)
	r.suspended(Request{Request: req, Shared: r.held != "" && r.held == req.Endpoint})
	back()
	res := r.result
	r.busy += res.Took
	if err := res.Err; err != nil && !hns.EndpointGone(err) && !errors.Is(err, hns.ErrElsewhere) {
		r.errs = append(r.errs, err)
	}
	return res.Result
}

// hold has the requests for an endpoint share a handle of HNS until release.
func (r *run) hold(endpoint string) (release func()) {
	r.held = endpoint
	return func() { r.held = "" }
}
