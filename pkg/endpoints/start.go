package endpoints

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
)

// starts returns the start of a pod that is placed now. Of one that is in the first
// transaction nobody can say how long it was open.
func (d *State) starts(p *desired.PodState) *state.Start {
	if d.generation <= 1 {
		return nil
	}
	return &state.Start{Since: d.now, Told: p.Sandbox.ID != ""}
}

// seek has the endpoint of a pod looked for that comes. It may have one of its own even where
// it loses the address.
func (d *State) seek(p *desired.PodState) {
	d.listing.wanted, d.listing.retry = true, backoff.Retry{}
	p.Listed, p.Search = time.Time{}, backoff.Retry{}
	p.Placed, p.Start = d.now, d.starts(p)
}

// started notes that an endpoint is right. If it is so for the first time, the start of its
// pod has ended.
func (d *State) started(ep *Endpoint) {
	p := d.desired.Local(ep.owner)
	switch {
	case p == nil || p.Start == nil || !p.Start.Until.IsZero() || !ep.Known() || ep.state.check:
	case p.Isolated() == [2]bool{} && !p.Tiered():
		p.Start = nil
	default:
		until := *p.Start
		until.Until = d.clock
		p.Start = &until
		d.ruled = append(d.ruled, state.PodStart{Pod: p.Key().String(), Start: until})
	}
}

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

// What a pod that starts may wait for.
var (
	errNotStaged  = errors.New("the agent has not come to it yet")
	errNoAddress  = errors.New("it has no address that a pod can have")
	errContested  = errors.New("another pod of this node has its address")
	errNoEndpoint = errors.New("HNS shows no endpoint with its address that was made for its sandbox")
	errNotListed  = errors.New("HNS was not asked for all endpoints since, or one that it listed is not read yet")
	errSetsLate   = errors.New("the sets in HNS do not show its address as they should yet")
)

// Starting returns the pods whose CNI told of a sandbox, and of which no endpoint for it was
// seen, or one that was left on the address by somebody whom we do not know: until all
// endpoints are listed there may be another one. The local pods bound them.
func (d *State) Starting() []*desired.PodState {
	var out []*desired.PodState
	for p := range d.desired.Locals() {
		if p.Sandbox.ID != "" && !d.foundOwn(p) {
			out = append(out, p)
		}
	}
	return out
}

// unseen reports whether the pod's own endpoint may be among those that were not read yet. That is
// so if the endpoints were not listed since the CNI reported the pod's sandbox, or if one that was
// listed then is unread. If reads of an endpoint failed for long, it counts only for pods whose CNI
// may have created it. unseen returns false if network namespaces identify the pod's endpoint.
func (d *State) unseen(p *desired.PodState) bool {
	if d.tellsNetns(p) {
		return false
	}
	if p.Listed.IsZero() {
		return true
	}
	for _, n := range d.unread {
		own := !p.Sandbox.Told.IsZero() && !n.came.Before(p.Sandbox.Told.Add(-madeBefore))
		if (own || n.Tries <= unreadTries) && !n.came.After(p.Listed) {
			return true
		}
	}
	return false
}

// PodReady returns nil when the endpoint of a pod's sandbox is what the pod's policies say,
// and all sets in HNS say the same of its address as we do. An error says what is missing.
func (d *State) PodReady(key desired.PodKey, uid types.UID, sandbox state.Sandbox) error {
	p := d.desired.Pod(key)
	switch {
	case p == nil || p.UID != uid || p.Sandbox.ID != sandbox.ID || p.Sandbox.Round < sandbox.Round:
		return errNotStaged
	case p.Finished:
		return nil
	case !p.Claims():
		return fmt.Errorf("%w: %s", errNoAddress, p.Addr)
	case !p.Home:
		return fmt.Errorf("%w: %s", errContested, p.Addr)
	}
	own := false
	for _, ep := range d.byAddr[p.Addr] {
		// After so many pauses there is no other one, if everything that is there was read.
		if !d.isOwn(ep, p) && (p.Search.Tries < maxRelists || len(d.unread) > 0 || d.tellsNetns(p)) {
			continue
		}
		if own = true; !ep.right() {
			return d.late(ep)
		}
	}
	switch {
	case !own && d.listing.err != nil:
		return fmt.Errorf("%w: %w", errNoEndpoint, d.listing.err)
	case !own:
		return errNoEndpoint
	case d.unseen(p):
		return errNotListed
	case d.cache.Lags(p.Addr):
		return errSetsLate
	}
	return nil
}

// right reports whether the endpoint is known to have what is desired for its pod.
func (ep *Endpoint) right() bool {
	return ep.Known() && !ep.state.check && !ep.Pending() && !ep.newborn() && ep.updatable()
}

// late says why an endpoint is not right.
func (d *State) late(ep *Endpoint) error {
	err := fmt.Errorf("its endpoint %s is %s", ep.ID, ep.state)
	if ep.lastErr != nil {
		err = fmt.Errorf("%w: %w", err, ep.lastErr)
	}
	return err
}

// TakeNewList takes what came of a search for endpoints that nothing uses yet, for pods that
// start.
func (d *State) TakeNewList(ids []string, err error, starting []*desired.PodState) {
	known := d.knownIDs()
	for _, id := range ids {
		d.admit(id, known)
	}
	if err != nil || d.listing.err != nil {
		return
	}
	for _, p := range starting {
		if p.Listed.IsZero() {
			p.Listed = d.clock
		}
	}
}
