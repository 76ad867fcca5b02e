package dataplane

import (
	"errors"
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/endpoints"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
)

// writeEndpoints works through the queue of pending updates; one whose sets are not ready waits for
// them. Then it asks HNS again about quarantined policies of endpoints that wait for nothing else.
func (r *run) writeEndpoints() {
	d := r.d
	var due []string
	for _, ep := range d.endpoints.Due(r.started) {
		if ep.Known() {
			due = append(due, ep.ID)
		}
	}
	if !r.writeEach(due, "updating", d.endpoints.Serve) {
		return
	}
	r.writeEach(d.endpoints.DueQuarantines(r.started), "asking again for", func(id string) {
		d.endpoints.TryQuarantined(id, r.started)
	})
}

// writeEach updates endpoints one after the other, until the next transaction is due; begin is
// called before each. An update that fails stays pending and does not stop the others. It returns
// false if the transaction has to end before all are updated.
func (r *run) writeEach(ids []string, doing string, begin func(id string)) bool {
	d := r.d
	for i, id := range ids {
		if r.ending() {
			return false
		}
		d.progress.Note(doing, "endpoint", "", id)
		begin(id)
		if err := r.writeEndpoint(id); err != nil {
			d.endpoints.Failed(d.endpoints.Endpoint(id), err, d.sets.At)
		}
		if r.yields(len(ids) - i - 1) {
			return false
		}
		r.pause() // many may wait for sets, and ask for nothing
	}
	return true
}

// writeEndpoint gives one endpoint its desired rules, over one handle of HNS. One that was
// never right for its pod, and that fails, gets its block whatever came in between.
func (r *run) writeEndpoint(id string) error {
	defer r.hold(id)()
	err := r.update(id)
	if err != nil && !r.fought(id, err) {
		r.isolate(id)
	}
	return err
}

// fought reports whether an update failed as somebody else undoes it.
func (r *run) fought(id string, err error) bool {
	ep := r.d.endpoints.Endpoint(id)
	conflict, is := errors.AsType[*versioned.Conflict](err)
	if !is || ep == nil {
		return false
	}
	return ep.Fought(conflict)
}

// update works through an endpoint's steps, acl.MaxAdds at most. After a rejection its policies
// are bisected, with steps that are planned anew, and a pod that is open gets its block before
// that. Between two steps the rest is left to the next transaction when that is due:
// each step leaves what some of the changes alone would give (acl.Plan).
func (r *run) update(id string) error {
	for {
		ep, steps, ready := r.d.endpoints.NextSteps(id)
		switch {
		case len(steps) == 0:
			return nil
		case !ready:
			return endpoints.ErrSetsNotReady
		}
		for i, s := range steps {
			done, err := r.step(ep, s)
			if err != nil {
				return err
			}
			if !done {
				r.isolate(id)
			}
			if r.tires(ep, len(steps)-i-1) {
				return nil
			}
			if !done {
				break
			}
		}
	}
}

// tires reports whether the rest of an endpoint's steps is left to the next
// transaction, which is due; left are those that are planned. In a bisection more
// may have to be. The rest has a turn of its own.
func (r *run) tires(ep *endpoints.Endpoint, left int) bool {
	d := r.d
	more := (left > 0 || ep.Bisecting()) && d.endpoints.Endpoint(ep.ID) == ep
	if !more || !r.yields(1) {
		return false
	}
	if ep.Pending() {
		d.endpoints.Join(ep)
	}
	return true
}

// step makes one request for an endpoint, with the version that it was planned
// from, and records what is there then. done is false when the rest has to be
// planned anew.
func (r *run) step(ep *endpoints.Endpoint, s acl.Step) (done bool, err error) {
	d := r.d
	w := r.writer()
	from := ep.Version()
	write, reached := w.Replace, s.ACLs
	if s.Verb == hns.Add {
		write, reached = w.Add, slices.Concat(ep.Actual(), s.ACLs)
	}
	is, err := write(ep.ID, from, s.ACLs)
	return d.endpoints.Wrote(ep, acl.Canonical(reached), s.ACLs, is, err)
}

// writer returns what writes for the run.
func (r *run) writer() versioned.Writer {
	return versioned.Writer{Ask: r.ask, Unchecked: r.d.cfg.Unchecked, Cut: r.d.spellings.OthersCut(), Parts: r.d.spellings.Parts, Learn: r.d.spellings.Learn}
}
