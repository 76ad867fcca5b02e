package dataplane

import (
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// setWork has the state of reads and writes of sets that later transactions need.
type setWork struct {
	sets    backoff.Retry        // the next read or write, after one failed
	due     bool                 // the last transaction left writes to the next one
	held    bool                 // members must leave other sets before they can join one
	omitted map[ipsets.Name]bool // see omitRejected

	refused   map[ipsets.Name]*backoff.Again // needed sets that HNS rejected, and when each is tried again
	removals  map[ipsets.Name]*backoff.Again // sets that HNS did not remove, and when each is tried again
	readAgain backoff.Retry                  // the next read, if only writes of sets that nothing needs are in doubt
}

// planSets returns the requests that create and update the sets which differ, in order.
func (n *nodeState) planSets() []ipsets.Write {
	if n.cache.Settled() {
		return nil
	}
	return n.cache.Plan()
}
