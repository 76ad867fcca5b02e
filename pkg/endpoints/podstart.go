package endpoints

import (
	"time"

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
