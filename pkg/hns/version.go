package hns

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Version is a digest of all that a plan for an endpoint is made from. HNS has no versions
// of its own (hcn's schema has no ETag), so two reads with one Version are taken for one
// state. The empty Version is that of nothing that was read.
type Version string

// Basis returns the version of an endpoint: its addresses, our rules in canonical form, and
// the defaults that others give, in any order. Whatever else others have there may change: an
// Add does not touch it, and an Update sends back what was read right before.
func Basis(addrs []netip.Addr, ours []ACL, others Defaults) Version {
	lines := []string{fmt.Sprintf("defaults %+v", others)}
	for _, a := range addrs {
		lines = append(lines, "address "+a.String())
	}
	for _, a := range ours {
		lines = append(lines, string(NewACLPolicy(a.Canonical()).Settings)) // JSON: one line
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return Version(hex.EncodeToString(sum[:16]))
}

// Basis returns the version of the endpoint as it was read, its rules shown as they were sent.
func (e Endpoint) Basis() Version {
	parts := e.Parts(nil)
	return Basis(e.Addrs, parts.Ours, parts.Defaults)
}

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
