package endpoints

import (
	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
)

// newborn reports whether the endpoint was never right for its pod, or lost what
// made it so: then the block goes first.
func (ep *Endpoint) newborn() bool { return ep.writtenFor != ep.owner || ep.exposed }

// Open reports whether a newborn endpoint lacks a block that it is to have, as
// far as is known.
func (d *State) Open(ep *Endpoint) bool {
	return ep.owner != "" && ep.newborn() && ep.state.rules != rulesShielded && len(d.Unblocked(ep, ep.shield())) > 0
}

// Unblocked returns what the endpoint lacks of shared rules, when a block is among
// it for a direction that nothing else of ours closes (the predecessor's blocks have
// other Ids); otherwise nothing. Of an endpoint whose list is not known that is all
// of them.
func (d *State) Unblocked(ep *Endpoint, shared []hns.ACL) []hns.ACL {
	if !d.leavesOpen(ep, ep.actual, shared) {
		return nil
	}
	added, _ := acl.Diff(ep.actual, shared)
	return added
}
