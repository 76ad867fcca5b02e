package dataplane

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// stage applies the transaction to what is desired, and renders the endpoints that follow from
// it. It asks HNS for nothing. As it may take long among many objects, it ends with a moment in
// which the state lock is free.
func (r *run) stage() {
	r.generation++
	r.endpoints.Begin(r.generation, r.started)
	r.changes = r.desired.Stage(&r.tx.Objects, r.started)
	r.renderDirty()
	r.unlocked(func() {})
}

// renderDirty renders the endpoints whose desired rules may have changed, also because HNS
// refuses a set, or no longer.
func (n *nodeState) renderDirty() {
	came := n.desired.TakeEffects()
	n.endpoints.Follow(came)
	if told := func(p *desired.PodState) bool { return p.Sandbox.ID != "" }; n.fresh && slices.ContainsFunc(came.Came, told) {
		n.sets = backoff.Retry{} // its CNI may have made the network just now
	}
	n.omitRejected()
	n.endpoints.RenderDirty()
	if n.omitRejected() { // a set that is needed only now
		n.endpoints.RenderDirty()
	}
}

// omitRejected finds the sets whose content HNS came to refuse, or does no longer, and marks the
// endpoints whose rules name them. A nested deny twin counts that lacks such a set: rules that
// name it lose the condition. Its cost is linear in the sets that HNS refuses and their holders.
func (n *nodeState) omitRejected() (changed bool) {
	refused := n.cache.RejectedSets()
	if len(refused)+len(n.omitted) == 0 {
		return false
	}
	for name := range n.omitted {
		refused = append(refused, name)
	}
	omitted := map[ipsets.Name]bool{}
	for _, name := range refused {
		if !n.cache.Rejected(name) {
			continue
		}
		omitted[name] = true
		for _, ref := range n.cache.Refs(name) {
			twin, ok := ipsets.ParseName(ref.Owner, true)
			if ref.Kind == ipsets.RefList && ok && twin.Denies() && n.cache.Rejected(twin) {
				omitted[twin] = true
			}
		}
	}
	for _, one := range []struct{ of, other map[ipsets.Name]bool }{{omitted, n.omitted}, {n.omitted, omitted}} {
		for name := range one.of {
			if !one.other[name] {
				n.endpoints.MarkHolders(name)
				changed = true
			}
		}
	}
	n.omitted = omitted
	return changed
}
