package dataplane

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/hns"
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

// starting returns the pods whose CNI told of a sandbox, and of which no endpoint for it was
// seen, or one that was left on the address by somebody whom we do not know: until all
// endpoints are listed there may be another one. The local pods bound them.
func (d *core) starting() []*podState {
	var out []*podState
	for _, p := range d.local {
		if p.Sandbox.ID != "" && !d.foundOwn(p) {
			out = append(out, p)
		}
	}
	return out
}

// enumerateNew finds the endpoints that nothing uses yet. Those that nobody knows are read
// next, one by one. It says nothing of the endpoints that it lacks, and an error of it
// nothing at all: pods whose endpoint is not found are looked for again.
func (r *run) enumerateNew(starting []*podState) {
	d := r.d
	began := d.sequence
	res := r.ask(hns.Request{Op: hns.OpEndpointNew})
	known := d.knownIDs()
	for _, id := range res.IDs {
		key := strings.ToLower(id)
		if _, is := known[key]; is || d.moved[id] > began {
			continue
		}
		if stranger, is := d.strangers[key]; is && !d.strangerDue(stranger) {
			continue
		}
		d.unread[id], known[key] = &unreadEndpoint{came: d.clock}, id
	}
	if res.Err != nil || d.listing.err != nil {
		return
	}
	for _, p := range starting {
		if p.listed.IsZero() {
			p.listed = d.clock
		}
	}
}

// unseen reports whether an endpoint may be the pod's own that was never read, where
// namespaces do not tell: since its CNI told of its sandbox not all are listed, or one that
// was listed then is not read. One whose read failed for long keeps nobody waiting.
func (d *core) unseen(p *podState) bool {
	if d.tellsNetns(p) {
		return false
	}
	if p.listed.IsZero() {
		return true
	}
	for _, n := range d.unread {
		if n.Tries <= unreadTries && !n.came.After(p.listed) {
			return true
		}
	}
	return false
}

// podReady returns nil when the endpoint of a pod's sandbox is what the pod's policies say,
// and all sets in HNS say the same of its address as we do. An error says what is missing.
func (d *core) podReady(key PodKey, uid types.UID, sandbox state.Sandbox) error {
	p := d.members.pods[key]
	switch {
	case p == nil || p.UID != uid || p.Sandbox.ID != sandbox.ID || p.Sandbox.Round < sandbox.Round:
		return errNotStaged
	case p.HostNetwork || p.Finished:
		return nil
	case !p.claims():
		return fmt.Errorf("%w: %s", errNoAddress, p.Addr)
	case !p.home:
		return fmt.Errorf("%w: %s", errContested, p.Addr)
	}
	own := false
	for _, ep := range d.byAddr[p.Addr] {
		// After so many pauses there is no other one, if everything that is there was read.
		if !d.isOwn(ep, p) && (p.search.Tries < maxRelists || len(d.unread) > 0 || d.tellsNetns(p)) {
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
func (ep *endpoint) right() bool {
	return ep.known() && !ep.state.check && !ep.pending() && !ep.newborn() && ep.updatable()
}

// late says why an endpoint is not right.
func (d *core) late(ep *endpoint) error {
	err := fmt.Errorf("its endpoint %s is %s", ep.id, ep.state)
	if ep.lastErr != nil {
		err = fmt.Errorf("%w: %w", err, ep.lastErr)
	}
	return err
}
