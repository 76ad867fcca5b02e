package hns

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Version is a digest of the state of an endpoint that a plan is based on. HNS itself has no
// versions (hcn's schema has no ETag), so two reads with the same Version count as the same state.
// The empty Version stands for an endpoint that was not read.
type Version string

// Basis returns the version of an endpoint: a digest of its addresses, our rules in canonical form,
// and the defaults that the foreign policies give, in any order. All else in the foreign policies
// may change without a new version: an Add does not touch them, and an Update sends back what was
// read right before.
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

// Basis returns the version of the endpoint as read, if it shows our rules as they were sent.
func (e Endpoint) Basis() Version {
	parts := e.Parts(nil)
	return Basis(e.Addrs, parts.Ours, parts.Defaults)
}

// Defaults tells in which directions a list of policies has a Switch rule that allows everything.
// Without one, the first ACL of any kind makes an endpoint deny by default (hcsshim#1059,
// Windows-Containers#616).
type Defaults struct {
	In, Out bool
	// Closed is set if a Switch rule with a lower precedence than all our rules blocks everything
	// in some direction. Calico's CNI makes such endpoints (azure-container-networking#1752), and
	// so does a CNI that is configured to make endpoints closed.
	Closed bool
}

// Note adds the default that a foreign rule gives, if any.
func (has *Defaults) Note(a ACL) {
	if a.Priority <= PriorityDefault && canonicalWord(a.Action, Block) == Block {
		return // a Block before the default priority gives no default; the check also avoids making most rules canonical
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
