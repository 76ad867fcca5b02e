package dataplane

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// stage folds a transaction into what is desired, and what follows from it into the
// endpoints; no I/O.
func (d *core) stage(tx *Transaction) desired.Changes {
	c := d.desired.Stage(&tx.Objects, d.now)
	d.follow()
	d.leaveOut()
	d.renderDirty()
	d.leaveOut() // of what is needed only now
	d.renderDirty()
	return c
}

// endLost ends the local lost pods that have no endpoint any more. It ends none while endpoints in
// HNS are still unread.
func (d *core) endLost() {
	d.desired.EndLost(d.endpoints.HasAddr)
	d.renderDirty()
}

// follow has the endpoints follow what came up in the desired state.
func (d *core) follow() {
	came := d.desired.TakeEffects()
	d.endpoints.Follow(came)
	told := func(p *desired.PodState) bool { return p.Sandbox.ID != "" }
	if d.fresh && slices.ContainsFunc(came.Came, told) {
		d.sets = backoff.Retry{} // its CNI may have made the network just now
	}
}

// renderDirty renders the endpoints whose desired rules may have changed.
func (d *core) renderDirty() {
	d.follow()
	d.endpoints.RenderDirty()
}

// leaveOut finds the sets whose content became one that HNS refused, or
// is no longer: the rules that name them go, or come back.
func (d *core) leaveOut() {
	for _, n := range d.cache.Refused() {
		if !d.leftOut[n] {
			d.leftOut[n] = true
			d.endpoints.MarkHolders(n)
		}
	}
	for n := range d.leftOut {
		if !d.cache.Rejected(n) {
			delete(d.leftOut, n)
			d.endpoints.MarkHolders(n)
		}
	}
	if len(d.leftOut)+len(d.lacking) > 0 {
		d.leaveOutTwins()
	}
}

// leaveOutTwins finds the nested deny twins that came to lack a member which HNS refuses,
// or lack none any more: rules that name them lose the condition, or get it back. It
// costs the sets that HNS refuses, and who holds them.
func (d *core) leaveOutTwins() {
	lacking := map[ipsets.Name]bool{}
	for n := range d.leftOut {
		for _, ref := range d.cache.Refs(n) {
			in, ok := ipsets.ParseName(ref.Owner, true)
			if ref.Kind == ipsets.RefList && ok && in.Denies() && d.cache.Rejected(in) {
				lacking[in] = true
			}
		}
	}
	for n := range lacking {
		if !d.lacking[n] {
			d.endpoints.MarkHolders(n)
		}
	}
	for n := range d.lacking {
		if !lacking[n] {
			d.endpoints.MarkHolders(n)
		}
	}
	d.lacking = lacking
}
