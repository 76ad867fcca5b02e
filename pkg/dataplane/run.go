package dataplane

import (
	"errors"
	"time"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
)

// run is one transaction on its way: what it asked of HNS and what came back. Its
// methods are the transaction, written as one sequence of calls. The sequence runs as a
// coroutine of whoever calls Next: ask suspends it until Done has the result.
type run struct {
	d       *core
	tx      *Transaction
	started time.Time
	changes desired.Changes
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

// errDropped ends a sequence that was dropped.
var errDropped = errors.New("the transaction was dropped")

// pause ends a stretch in which nobody else sees the state. Whoever adds one that has no
// request and grows with what tenants write ends it here.
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
	r.suspended(Request{Request: req, Shared: r.held != "" && r.held == req.Endpoint})
	res := r.result
	r.busy += res.Took
	gone := req.Endpoint != "" && (hns.EndpointGone(res.Err) || errors.Is(res.Err, hns.ErrElsewhere))
	if err := res.Err; err != nil && !gone {
		r.errs = append(r.errs, err)
	}
	return res.Result
}

// hold has the requests for an endpoint share a handle of HNS until release. The shell
// closes it when the next request does not share it, and at the end.
func (r *run) hold(endpoint string) (release func()) {
	r.held = endpoint
	return func() { r.held = "" }
}

// yields ends the turn of an endpoint that was read or written; left are those
// that wait for theirs. It reports whether they are left to the next transaction.
func (r *run) yields(left int) bool {
	r.turns++
	if r.yielded == 0 && left > 0 && r.tx.yield != nil {
		r.suspended(Request{Turns: r.turns})
		if r.result.Yield {
			r.yielded = r.turns
		}
	}
	return r.yielded > 0
}
