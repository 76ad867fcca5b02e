package hns

import "net/netip"

// Defaults are the directions in which a list has a Switch rule that allows
// everything. Without one any first ACL makes an endpoint deny by default
// (hcsshim#1059, Windows-Containers#616).
type Defaults struct {
	In, Out bool
	// Closed: a Switch rule behind all of ours blocks everything in some direction. Calico's CNI
	// gives such an endpoint (azure-container-networking#1752), and so does whoever has
	// endpoints made closed.
	Closed bool
}

// Note adds what a rule gives.
func (has *Defaults) Note(a ACL) {
	if a.Priority <= PriorityDefault && canonicalWord(a.Action, Block) == Block {
		return // no default, whatever it matches; what every endpoint has is seldom canonical
	}
	a = a.Canonical()
	switch {
	case !a.MatchesAll():
	case a.Action == Block:
		has.Closed = true
	case a.Direction == In:
		has.In = true
	case a.Direction == Out:
		has.Out = true
	}
}

// Basis returns the basis of the endpoint as it was read.
func (e Endpoint) Basis() Version {
	parts := e.Parts(nil)
	return Basis(e.Addrs, parts.Ours, parts.Defaults)
}

// Basis is the version of all that a plan for an endpoint is made from: its addresses, our
// rules, and the defaults that others give. Whatever else others have there may change: an
// Add does not touch it, and an Update sends back what was read right before.
func Basis(addrs []netip.Addr, ours []ACL, others Defaults) Version {
	var marks []EndpointPolicy
	if others.In {
		marks = append(marks, EndpointPolicy{Type: "defaults in"})
	}
	if others.Out {
		marks = append(marks, EndpointPolicy{Type: "defaults out"})
	}
	if others.Closed {
		marks = append(marks, EndpointPolicy{Type: "defaults closed"})
	}
	return VersionOf(addrs, ours, marks)
}
