package dataplane

import (
	"errors"
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/endpoints"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
)

// A pod that is to be isolated and has no block yet is open. Whatever fails on the
// way to its rules, the block is the next thing that HNS is asked for.

// isolateNewborn gives every endpoint that is open its block, before what may take
// long: other pods' sets are being looked through for one that HNS refuses.
func (r *run) isolateNewborn() {
	d := r.d
	var open []string
	for _, ep := range d.endpoints.Due(r.started) {
		if d.endpoints.Open(ep) {
			open = append(open, ep.ID)
		}
	}
	for _, id := range open {
		if r.ending() {
			return
		}
		d.progress.Note("isolating", "endpoint", "", id)
		r.isolateHeld(id)
	}
}

// isolateHeld is isolate with the endpoint held.
func (r *run) isolateHeld(id string) {
	defer r.hold(id)()
	r.isolate(id)
}

// isolate gives an endpoint that is open the rules that all policies share, and
// when that fails those of them that are essential; then each block alone, if HNS
// answers. It names no set and needs no policy. What a write left that broke off is
// read first; where that cannot be read either, the rules are added all the same: at
// the worst they are there twice, and the next Update ends that. The caller holds the
// endpoint.
func (r *run) isolate(id string) {
	d := r.d
	var last []hns.ACL
	answered := false
	for i, way := range endpoints.Isolations() {
		ep := d.endpoints.Endpoint(id)
		if i > 1 && !answered || ep == nil || !d.endpoints.Open(ep) || r.ending() {
			return
		}
		if !ep.Known() {
			r.get(id)
		}
		if ep = d.endpoints.Endpoint(id); ep == nil || !d.endpoints.Open(ep) {
			continue
		}
		acls := d.endpoints.Unblocked(ep, way.Rules(ep))
		switch {
		case len(acls) == 0, way.Verb == hns.Add && slices.Equal(acls, last):
			continue
		case way.Verb == hns.Update && !ep.Known():
			return
		case way.Verb == hns.Update:
			acls = slices.Concat(ep.Actual(), acls)
		}
		last = acls
		var blind bool
		if answered, blind = r.try(ep, acl.Step{Verb: way.Verb, ACLs: acls}); blind {
			return
		}
	}
}

// try is one way to close an endpoint. It reports whether HNS answered what may be its
// word against the rules, and whether it took them though the endpoint cannot be read.
func (r *run) try(ep *endpoints.Endpoint, s acl.Step) (answered, blind bool) {
	if ep.Known() {
		done, err := r.step(ep, s) // the error of the write before it counts
		if s.Verb == hns.Update || !errors.Is(err, versioned.ErrUnread) {
			return !done && (err == nil || endpoints.SaysOfRules(err)), false
		}
	}
	err := r.addBlind(ep, s.ACLs)
	return endpoints.SaysOfRules(err), err == nil
}

// addBlind adds rules to an endpoint that cannot be read, which may be gone from our
// state by now.
func (r *run) addBlind(ep *endpoints.Endpoint, acls []hns.ACL) error {
	err := r.ask(hns.Request{Op: hns.OpACLAdd, Endpoint: ep.ID, ACLs: acls}).Err
	if r.d.endpoints.Endpoint(ep.ID) == ep && !hns.EndpointGone(err) {
		r.d.endpoints.TakeBlindAdd(ep, acls, err)
	}
	return err
}
