package endpoints

import (
	"cmp"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TakeLook takes what came of a look at an endpoint. The next transaction reads one that could
// not be read.
func (d *State) TakeLook(id string, e hns.Endpoint, err error) {
	ep := d.byID[id]
	if ep == nil {
		return
	}
	ep.seen = d.clock
	switch {
	case err != nil:
		ep.state.check = true
	case ep.Known() && ep.version == d.Spellings.Basis(e):
		ep.state.check = false
		ep.foreign = d.Spellings.Parts(e).Foreign // no plan is made from what else others have, but explanations are
	default:
		d.TakeRead(id, e, nil)
	}
}

// Oldest returns the endpoint that was read longest ago, when that was, and how many take
// turns: those that are read before they are written do not. "" for none.
func (d *State) Oldest() (id string, seen time.Time, n int) {
	var oldest *Endpoint
	for _, ep := range d.byID {
		if ep.Pending() || !ep.Known() || ep.state.check {
			continue
		}
		n++
		if oldest == nil || cmp.Or(ep.seen.Compare(oldest.seen), cmp.Compare(ep.ID, oldest.ID)) < 0 {
			oldest = ep
		}
	}
	if oldest == nil {
		return "", time.Time{}, 0
	}
	return oldest.ID, oldest.seen, n
}

// LookAge returns for how long the endpoint that was read longest ago has not been.
func (d *State) LookAge() (age time.Duration) {
	for _, ep := range d.byID {
		if ep.Known() {
			age = max(age, d.clock.Sub(ep.seen))
		}
	}
	return age
}

// Lost returns when an endpoint was last found without its block.
func (d *State) Lost() time.Time { return d.lost }
