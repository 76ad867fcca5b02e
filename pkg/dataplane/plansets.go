package dataplane

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// maxSetsPerRequest bounds requests that no applied ACL can see half done: Add
// and Remove. An Update is never cut, as one event's changes belong together.
const maxSetsPerRequest = 1000

// setWork is what a transaction leaves to later ones of the work on sets.
type setWork struct {
	fresh   bool                 // our sets were not read yet
	sets    backoff.Retry        // after a read or write of needed sets failed
	due     bool                 // something may be written at once, in the next transaction
	held    bool                 // members wait to join sets
	omitted map[ipsets.Name]bool // sets that HNS refuses, and deny twins that lack one: rules do without

	refused   map[ipsets.Name]*backoff.Again // needed sets that HNS refuses: when it is asked again
	removals  map[ipsets.Name]*removal
	readAgain backoff.Retry // of sets that nobody needs and of which a write is in doubt
}

// removal is a set that HNS did not remove when it was asked to.
type removal struct {
	backoff.Again
	alone bool // HNS rejected a request with it, so it is asked for alone
}

// planSets returns the requests that create and update sets and are to be sent now.
func (n *nodeState) planSets() (plan []ipsets.Request) {
	if n.cache.Settled() {
		return nil
	}
	for _, req := range n.cache.Plan() {
		if req.Verb == ipsets.Update {
			plan = append(plan, req)
			continue
		}
		for part := range slices.Chunk(req.Sets, maxSetsPerRequest) {
			cut := req
			cut.Sets = part
			plan = append(plan, cut)
		}
	}
	return plan
}

// planLater finds which work on sets is left: at once, unless they failed, or once members have
// left other sets.
func (n *nodeState) planLater() {
	mayWrite := !n.cfg.DryRun && n.sets.Tries == 0 && !n.fresh && !n.cache.InDoubt()
	n.due = mayWrite && len(n.planSets()) > 0
	n.held = !n.cache.Settled() && n.cache.HeldBack()
}
