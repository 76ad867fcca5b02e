package dataplane

import (
	"errors"
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/endpoints"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
)

// writeEndpoints updates the endpoints of the queue that are due. An endpoint whose sets are not
// ready waits. Then it tries quarantined policies again.
func (r *run) writeEndpoints() {
	var due []string
	for _, ep := range r.endpoints.Due(r.started) {
		if ep.Known() {
			due = append(due, ep.ID)
		}
	}
	if len(due) > 0 && !r.writeEach(due, r.endpoints.Serve) {
		return
	}
	if again := r.endpoints.DueQuarantines(r.started); len(again) > 0 {
		r.writeEach(again, func(id string) { r.endpoints.TryQuarantined(id, r.started) })
	}
}

// writeEach updates endpoints one after the other, until the next transaction is due. It calls
// begin before each. An update that fails stays pending and does not stop the others. It returns
// false if the transaction has to end before all are updated.
func (r *run) writeEach(ids []string, begin func(id string)) bool {
	for i, id := range ids {
		if r.ctx.Err() != nil {
			return false
		}
		r.progress.Note("writing", "endpoint", "", id)
		begin(id)
		if err := r.writeEndpoint(id); err != nil {
			r.endpoints.Failed(r.endpoints.Endpoint(id), err, r.sets.At)
		}
		if left := len(ids) - i - 1; r.yielded || left > 0 && r.yields() {
			return false
		}
	}
	return true
}

// writeEndpoint updates one endpoint, over one handle of HNS. If the update fails and leaves the
// endpoint open, the endpoint is isolated, unless another program keeps undoing the update.
func (r *run) writeEndpoint(id string) error {
	defer r.hold(id)()
	err := r.update(id)
	if err == nil {
		return nil
	}
	ep := r.endpoints.Endpoint(id)
	if conflict, is := errors.AsType[*versioned.Conflict](err); !is || ep == nil || !ep.Fought(conflict) {
		r.isolate(id)
	}
	return err
}

// update plans and writes one step of an endpoint after the other until none is left. After a
// rejection the plan bisects the policies. A step that has to be planned anew may leave the endpoint
// open, so it is isolated. The rest may be left to the next transaction after any step, because each
// step alone opens nothing (acl.Plan).
func (r *run) update(id string) error {
	for {
		ep, steps, ready := r.endpoints.NextSteps(id)
		switch {
		case len(steps) == 0:
			return nil
		case !ready:
			return endpoints.ErrSetsNotReady
		}
		done, err := r.step(ep, steps[0])
		if err != nil {
			return err
		}
		if !done {
			r.isolate(id)
		}
		more := len(steps) > 1 || ep.Bisecting() // a bisection may need more steps
		if more && r.endpoints.Endpoint(id) == ep && r.yields() {
			if ep.Pending() {
				r.endpoints.Join(ep)
			}
			return nil
		}
	}
}

// step makes one request for an endpoint, with the version that it was planned from, and records
// the outcome. done is false if the rest has to be planned anew.
func (r *run) step(ep *endpoints.Tracked, s acl.Step) (done bool, err error) {
	w := r.endpoints.Writer(ep.ID)
	w.Ask, w.Unchecked = r.ask, r.cfg.Unchecked
	write, reached := w.Replace, s.ACLs
	if s.Verb == hns.Add {
		write, reached = w.Add, slices.Concat(ep.Actual, s.ACLs)
	}
	is, err := write(ep.ID, ep.Version, s.ACLs)
	return r.endpoints.Wrote(ep, reached, s.ACLs, is, err)
}

// isolateOpen isolates every open endpoint that is due: its desired rules have a block that HNS
// lacks. It runs before a search for rejected sets, which may take long.
func (r *run) isolateOpen() {
	var open []string
	for _, ep := range r.endpoints.Due(r.started) {
		if ep.Open() {
			open = append(open, ep.ID)
		}
	}
	for _, id := range open {
		if r.ctx.Err() != nil {
			return
		}
		r.progress.Note("isolating", "endpoint", "", id)
		r.isolate(id)
	}
}

// isolate adds to an open endpoint the rules that all policies share. If that fails it adds the
// essential ones, and then each block alone if HNS answers. These rules name no set. The endpoint
// is read first if the outcome of its last write is unknown. If that fails the rules are added
// anyway: at worst HNS has them twice until the next Update.
func (r *run) isolate(id string) {
	defer r.hold(id)()
	var last []hns.ACL
	answered := false
	for try := range endpoints.Isolations {
		ep := r.endpoints.Endpoint(id)
		if try > 1 && !answered || ep == nil || !ep.Open() || r.ctx.Err() != nil {
			return
		}
		if !ep.Known() {
			r.readEndpoint(id)
		}
		if ep = r.endpoints.Endpoint(id); ep == nil || !ep.Open() {
			continue
		}
		verb, rules := ep.Isolation(try)
		acls := ep.Unblocked(rules)
		switch {
		case len(acls) == 0, verb == hns.Add && slices.Equal(acls, last):
			continue
		case verb == hns.Update && !ep.Known():
			return
		case verb == hns.Update:
			acls = slices.Concat(ep.Actual, acls)
		}
		last = acls
		var blind bool
		if answered, blind = r.isolateBy(ep, acl.Step{Verb: verb, ACLs: acls}); blind {
			return
		}
	}
}

// isolateBy tries one way to isolate an endpoint. It reports whether HNS may have rejected the
// rules, and whether HNS took them although the endpoint cannot be read.
func (r *run) isolateBy(ep *endpoints.Tracked, s acl.Step) (answered, blind bool) {
	if ep.Known() {
		done, err := r.step(ep, s)
		if s.Verb == hns.Update || !errors.Is(err, versioned.ErrUnread) {
			return !done && (err == nil || endpoints.SaysOfRules(err)), false
		}
	}
	err := r.ask(hns.Request{Op: hns.OpACLAdd, Endpoint: ep.ID, ACLs: s.ACLs}).Err
	if r.endpoints.Endpoint(ep.ID) == ep && !hns.EndpointGone(err) { // it is still there
		r.endpoints.TakeBlindAdd(ep, s.ACLs, err)
	}
	return endpoints.SaysOfRules(err), err == nil
}
