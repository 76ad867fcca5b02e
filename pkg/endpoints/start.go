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

// seek starts the search for the endpoint of a new pod. The pod may have one even if another pod
// owns the address. How long the pods of the first transaction were open is unknown.
func (d *Table) seek(p *desired.PodState) {
	d.listing.wanted, d.listing.retry = true, backoff.Retry{}
	p.Listed, p.Search = time.Time{}, backoff.Retry{}
	p.Placed, p.Start = d.now, nil
	if d.generation > 1 {
		p.Start = &state.Start{Since: d.now, Told: p.Sandbox.ID != ""}
	}
}

// started ends the start of an endpoint's pod, if the endpoint is right for the first
// time.
func (d *Table) started(ep *Tracked) {
	p := d.desired.Local(ep.owner)
	switch {
	case p == nil || p.Start == nil || !p.Start.Until.IsZero() || !ep.Known() || ep.state.check:
	case p.Isolated() == [2]bool{} && !p.Tiered():
		p.Start = nil
	default:
		until := *p.Start
		until.Until = d.Clock
		p.Start = &until
		d.ruled = append(d.ruled, state.PodStart{Pod: p.Key().String(), Start: until})
	}
}

// Several endpoints may have a pod's address, because HNS may still show the endpoints of dead pods.
// The network namespace identifies the pod's own endpoint, if HNS shows namespaces and the CNI
// reported the pod's. Otherwise an endpoint belongs to the first pod that owned its address.

// Bounds of the number of pauses, 1, 2, 4 … 30 s, in the search for the own endpoint of a pod
// whose address only endpoints of other pods have. After maxRelists, a minute, an old endpoint counts as
// the pod's, unless namespaces tell. Then the search lasts as long as a CNI may wait, 300 s.
const (
	maxRelists     = 6
	maxRelistsTold = 14
)

// madeBefore is the longest time between the creation of a pod's endpoint and the claim of our
// plugin: other plugins of the list run in between.
const madeBefore = 5 * time.Second

// bearFor records the first pod that owns an endpoint, and its sandbox.
func (ep *Tracked) bearFor(p *desired.PodState) {
	ep.bornFor = p.UID
	if told := p.Sandbox.Told; told.IsZero() || ep.came.IsZero() || !ep.came.Before(told.Add(-madeBefore)) {
		ep.bornIn = p.Sandbox.ID // else it was there before the sandbox
	}
}

// isOwn reports whether an endpoint with the pod's address belongs to the present sandbox of the
// pod, as far as known.
func (d *Table) isOwn(ep *Tracked, p *desired.PodState) bool {
	if d.tellsNetns(p) {
		return strings.EqualFold(ep.netns, p.Sandbox.Netns)
	}
	return ep.bornFor == p.UID && ep.bornIn == p.Sandbox.ID
}

// tellsNetns reports whether network namespaces tell which endpoint is the pod's own: the CNI
// reported the pod's, and HNS shows the namespace of at least one endpoint. Its cost is linear in the endpoints.
func (d *Table) tellsNetns(p *desired.PodState) bool {
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
func (d *Table) hasOwn(p *desired.PodState) bool {
	return slices.ContainsFunc(d.byAddr[p.Addr], func(ep *Tracked) bool { return d.isOwn(ep, p) })
}

// foundOwn reports whether the search for a starting pod's own endpoint is over. If namespaces do
// not tell, there may be another one until all endpoints were listed after the CNI reported
// the pod.
func (d *Table) foundOwn(p *desired.PodState) bool {
	return d.hasOwn(p) && (d.tellsNetns(p) || !p.Listed.IsZero())
}

// inherits plans the search for a pod whose address only endpoints of other pods have: a new pause
// begins when the last one is over, and these endpoints are read again, as their namespace may be
// set later. It returns the end of the pause, zero if the search is over.
func (d *Table) inherits(p *desired.PodState, eps []*Tracked) time.Time {
	told := d.tellsNetns(p)
	if p.Search.Tries >= maxRelistsTold || !told && p.Search.Tries >= maxRelists {
		return time.Time{}
	}
	if !p.Search.At.After(d.Clock) {
		p.Search.Tries++
		p.Search.At = d.Clock.Add(backoff.Pause(p.Search.Tries))
		for _, ep := range eps {
			ep.state.check = ep.state.check || told && ep.netns == ""
		}
	}
	return p.Search.At
}

// The reasons for which a starting pod waits.
var (
	errNotStaged  = errors.New("the agent has not come to it yet")
	errNoAddress  = errors.New("it has no address that a pod can have")
	errContested  = errors.New("another pod of this node has its address")
	errNoEndpoint = errors.New("HNS shows no endpoint with its address that was made for its sandbox")
	errNotListed  = errors.New("HNS was not asked for all endpoints since, or one that it listed is not read yet")
	errSetsLate   = errors.New("the sets in HNS do not show its address as they should yet")
)

// Starting returns the pods whose CNI reported a sandbox, and whose search for an endpoint of
// that sandbox is not over. The number of local pods bounds the
// result.
func (d *Table) Starting() []*desired.PodState {
	var out []*desired.PodState
	for p := range d.desired.Locals() {
		if p.Sandbox.ID != "" && !d.foundOwn(p) {
			out = append(out, p)
		}
	}
	return out
}

// unseen reports whether the pod's own endpoint may be among the endpoints that were not read yet. This
// is the case if the endpoints were not listed since the CNI reported the pod's sandbox, or if one that was
// listed then is unread. If reads of an endpoint failed for long, it counts only for pods whose CNI
// may have created it. unseen returns false if network namespaces identify the pod's endpoint.
func (d *Table) unseen(p *desired.PodState) bool {
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

// PodReady returns nil when the endpoint of a pod's sandbox has its desired rules, and every set
// that rules see has the pod's address if and only if it should. An error says what is missing.
func (d *Table) PodReady(key desired.PodKey, uid types.UID, sandbox state.Sandbox) error {
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
		// After maxRelists pauses there is no other endpoint, if all that HNS listed were read.
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

// right reports whether the endpoint is known to have the desired rules of its pod.
func (ep *Tracked) right() bool {
	return ep.Known() && !ep.state.check && !ep.Pending() && ep.writtenFor == ep.owner && !ep.exposed && ep.owner != ""
}

// late says why an endpoint is not right.
func (d *Table) late(ep *Tracked) error {
	err := fmt.Errorf("its endpoint %s is %s", ep.ID, ep.state)
	if ep.lastErr != nil {
		err = fmt.Errorf("%w: %w", err, ep.lastErr)
	}
	return err
}

// TakeNewList records the result of an enumeration of endpoints that no container uses yet, for
// starting pods.
func (d *Table) TakeNewList(ids []string, err error, starting []*desired.PodState) {
	known := d.knownIDs()
	for _, id := range ids {
		d.admit(id, known)
	}
	if err != nil || d.listing.err != nil {
		return
	}
	for _, p := range starting {
		if p.Listed.IsZero() {
			p.Listed = d.Clock
		}
	}
}
