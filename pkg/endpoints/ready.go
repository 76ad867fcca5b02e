package endpoints

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
)

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
		key := strings.ToLower(id)
		if _, is := known[key]; is {
			continue
		}
		if stranger, is := d.strangers[key]; is && !d.strangerDue(stranger) {
			continue
		}
		d.unread[id], known[key] = &unreadEndpoint{came: d.clock}, id
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
