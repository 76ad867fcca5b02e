package dataplane

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/endpoints"
	"github.com/winnpm/winnpm/pkg/progress"
)

// probe asks HNS once more for what it refused on endpoints that wait for nothing
// else. What it takes is there then, and desired; what it refuses stays left out, and
// nothing else is touched.
func (r *run) probe() {
	d := r.d
	due, tiers := d.endpoints.Probes(r.started), d.endpoints.TierProbes(r.started)
	ask := func(endpoint string, left int, probe func() error) (more bool) {
		if r.ending {
			return false
		}
		d.progress.Note("asking again for", progress.Endpoint, "", endpoint)
		if err := probe(); err != nil {
			d.endpoints.Failed(d.endpoints.Endpoint(endpoint), err, d.sets.At)
		}
		if r.yields(left) {
			return false
		}
		r.pause()
		return true
	}
	for i, p := range due {
		if !ask(p.Endpoint, len(due)+len(tiers)-i-1, func() error { return r.probeOne(p) }) {
			return
		}
	}
	for i, p := range tiers {
		if !ask(p.Endpoint, len(tiers)-i-1, func() error { return r.probeTiers(p) }) {
			return
		}
	}
}

// probeOne makes one try.
func (r *run) probeOne(p endpoints.Probing) error {
	d := r.d
	ep := d.endpoints.Endpoint(p.Endpoint)
	if ep == nil || !ep.Known() || ep.Pending() || !ep.Refuses(p.Key, p.Digest) {
		return nil
	}
	from, reached := ep.Version(), acl.Canonical(slices.Concat(ep.Actual(), p.ACLs))
	defer r.hold(p.Endpoint)()
	is, err := r.writer().Add(p.Endpoint, from, p.ACLs)
	if d.endpoints.TakeProbe(ep, p, err) {
		return nil
	}
	_, err = d.endpoints.Wrote(ep, reached, p.ACLs, is, err)
	if d.endpoints.Endpoint(p.Endpoint) == ep {
		d.endpoints.Queue(ep)
	}
	return err
}
