package dataplane

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// stage applies the transaction to the desired state, and renders the endpoints whose rules may
// change. It makes no request. Because it may take long, it releases the state lock at its end,
// for callers that wait for it.
func (r *run) stage() {
	r.generation++
	r.endpoints.Begin(r.generation, r.started)
	r.changes = r.desired.Stage(&r.tx.Objects, r.started)
	r.renderDirty()
	r.unlocked(func() {})
}

// renderDirty renders the endpoints whose desired rules may have changed. Rules also change when
// HNS rejects a set that they name, or accepts it again.
func (n *nodeState) renderDirty() {
	came := n.desired.TakeEffects()
	if reported := func(p *desired.PodState) bool { return p.Sandbox.ID != "" }; slices.ContainsFunc(came.Came, reported) && !n.cache.Observed() {
		n.sets = backoff.Retry{} // the CNI of the new pod may have made the network, so sets are read without a pause
	}
	n.endpoints.Render(came)
	if rejected := n.cache.RejectedSets(); len(rejected)+len(n.omitted) > 0 && n.omitRejected(rejected) {
		n.endpoints.Render(desired.Effects{})
	}
}

// omitRejected finds which sets rules must omit: the sets that HNS rejects, and nested deny twins
// that lack a rejected member. It marks the endpoints whose rules name a set that was added or
// removed here, and reports whether there is one. Its cost is linear in the rejected sets and
// their holders.
func (n *nodeState) omitRejected(rejected []ipsets.Name) (changed bool) {
	candidates := rejected
	for name := range n.omitted {
		candidates = append(candidates, name)
	}
	omitted := map[ipsets.Name]bool{}
	for _, name := range candidates {
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
