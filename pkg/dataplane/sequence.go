package dataplane

import (
	"fmt"
	"iter"
	"runtime/debug"
)

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

// sequence is the whole transaction.
func (r *run) sequence(suspend func(Request) bool) {
	defer func() {
		if p := recover(); p != nil && !r.dropped {
			panic(&crash{p, debug.Stack()})
		}
	}()
	d := r.d
	r.suspend = suspend
	d.begin(d.generation+1, r.started)
	r.changes = d.stage(r.tx)
	r.pause()

	r.read()
	d.endLost()

	d.progress.Note("writing sets", "", "", "")
	written := r.writeSets()
	r.updatePods()
	d.progress.Note("removing sets", "", "", "")
	r.removeSets()
	r.endSets(written)
	r.pause()
	d.report = d.outcome(r)
}

// crash is a panic of the sequence, with the stack that it had: the coroutine has another
// one than whoever called Next.
type crash struct {
	value any
	stack []byte
}

// Error implements error.
func (c *crash) Error() string { return fmt.Sprintf("%v\n\n%s", c.value, c.stack) }

// Unwrap returns the value, if it is an error.
func (c *crash) Unwrap() error {
	err, _ := c.value.(error)
	return err
}
