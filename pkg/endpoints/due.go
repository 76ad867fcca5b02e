package endpoints

import (
	"math"
	"time"
)

// maxAhead is how many turns a namespace may be ahead of who has waited longest, and
// have its open endpoints go first all the same.
const maxAhead = 16

// Due returns the endpoints whose update is due, in the order of the
// queue. After HNS lost everything every endpoint needs a repair, so a round makes
// some of them only, and events that come meanwhile go before the rest. An endpoint
// that is open goes before all others, once: each pod that begins is open once. Who
// starts pods all the time has maxAhead of them served before others that wait.
func (d *State) Due(now time.Time) []*Endpoint {
	var due, out []*Endpoint
	for _, ep := range d.byID {
		if ep.Pending() && !ep.retryAt.After(now) {
			due = append(due, ep)
		}
	}
	repairs := 0
	for _, ep := range inOrder(due, d.subqueues, d.turn) {
		if ep.repair {
			if repairs == d.cfg.MaxRepairs {
				continue
			}
			repairs++
		}
		out = append(out, ep)
	}
	first := uint64(math.MaxUint64) // the turn of who has waited longest
	for _, ep := range out {
		first = min(first, d.subqueues[ep.subqueue].next)
	}
	var ahead, rest []*Endpoint
	for _, ep := range out {
		if ep.tries > 0 || !d.Open(ep) || d.subqueues[ep.subqueue].next > first+maxAhead {
			rest = append(rest, ep)
		} else {
			ahead = append(ahead, ep)
		}
	}
	return append(ahead, rest...)
}
