package endpoints

import (
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
)

// Which of the endpoints with a pod's address is its own: HNS may still show those that dead
// pods left there. The namespace that HNS shows an endpoint in says it, where HNS shows
// namespaces and the CNI told of the pod's. Elsewhere an endpoint is that of the first pod
// whose address it was seen with.

// Bounds of the pauses in the search for a pod that has endpoints of others only, at 1, 2, 4
// … 30 s. A minute of them has passed after maxRelists, and an old one is the pod's then, but
// not where namespaces tell. There it is looked for as long as a CNI may wait, 300 s.
const (
	maxRelists     = 6
	maxRelistsTold = 14
)

// madeBefore is how long before a CNI asks it has made the pod's endpoint at most: the other
// plugins of its list run between.
const madeBefore = 5 * time.Second

// bearFor keeps for whom an endpoint came: the first pod that owned it.
func (ep *Endpoint) bearFor(p *desired.PodState) {
	if ep.bornFor != "" {
		return
	}
	ep.bornFor = p.UID
	if told := p.Sandbox.Told; told.IsZero() || ep.came.IsZero() || !ep.came.Before(told.Add(-madeBefore)) {
		ep.bornIn = p.Sandbox.ID // else it was there before the sandbox
	}
}

// isOwn reports whether an endpoint with the pod's address is of the sandbox that the pod
// has now, as far as we know.
func (d *State) isOwn(ep *Endpoint, p *desired.PodState) bool {
	if d.tellsNetns(p) {
		return strings.EqualFold(ep.netns, p.Sandbox.Netns)
	}
	return ep.bornFor == p.UID && ep.bornIn == p.Sandbox.ID
}

// tellsNetns reports whether namespaces tell which endpoint is the pod's own: the CNI told of
// the pod's, and HNS shows one of some endpoint. It costs the endpoints.
func (d *State) tellsNetns(p *desired.PodState) bool {
	if p.Sandbox.Netns != "" {
		for _, ep := range d.byID {
			if ep.netns != "" {
				return true
			}
		}
	}
	return false
}

// hasOwn reports whether an endpoint of the pod's own is known.
func (d *State) hasOwn(p *desired.PodState) bool {
	return slices.ContainsFunc(d.byAddr[p.Addr], func(ep *Endpoint) bool { return d.isOwn(ep, p) })
}

// foundOwn reports whether a pod that starts has an endpoint of its own, and needs no search any
// more. Where namespaces do not tell there may be another one, until all were listed since
// its CNI told of it.
func (d *State) foundOwn(p *desired.PodState) bool {
	return d.hasOwn(p) && (d.tellsNetns(p) || !p.Listed.IsZero())
}

// inherits takes that a pod has endpoints of others only: when the pause after the last look
// is over the next one begins. What HNS shows of these endpoints is read anew, as the
// namespace may have come later. It returns when the pause ends, zero when there is none.
func (d *State) inherits(p *desired.PodState, eps []*Endpoint) time.Time {
	told := d.tellsNetns(p)
	if p.Search.Tries >= maxRelistsTold || !told && p.Search.Tries >= maxRelists {
		return time.Time{}
	}
	if !p.Search.At.After(d.clock) {
		p.Search.Tries++
		p.Search.At = d.clock.Add(backoff.Pause(p.Search.Tries))
		for _, ep := range eps {
			ep.state.check = ep.state.check || told && ep.netns == ""
		}
	}
	return p.Search.At
}
