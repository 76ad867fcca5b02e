package dataplane

import (
	"iter"
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
