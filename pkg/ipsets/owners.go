package ipsets

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Claim is one live pod's claim to an address. A finished pod claims nothing.
type Claim struct {
	UID       string
	Namespace string
	Local     bool // of a pod of this node
	Deleting  bool
	Trust     int8      // for a pod of another node: Inside, Outside, Lost, or 0 if unknown
	Started   time.Time // zero if unknown or in the future
	Created   time.Time
}

// Values of Claim.Trust, by the Node object of the pod. They only rank several claims to one
// address: a single claim is valid with any of them.
const (
	Inside  = -1 // the address is in the node's podCIDRs
	Outside = 1  // the node has podCIDRs, and the address is in none of them
	Lost    = 2  // the Node object is gone, or has been not ready for a while
)

// losesTo reports whether a claim gives way to another one because of the Trust of both.
func (c Claim) losesTo(o Claim) bool {
	return c.Trust == Lost && o.Trust != Lost || c.Trust == Outside && o.Trust == Inside
}

// compareClaims puts the stronger claim first. It prefers, in this order, a pod that is not being
// deleted, a pod of this node, the smaller Trust, the later start, the later creation, and the
// greater UID.
func compareClaims(a, b Claim) int {
	return cmp.Or(later(a.Deleting, b.Deleting), later(b.Local, a.Local), cmp.Compare(a.Trust, b.Trust),
		b.Started.Compare(a.Started), b.Created.Compare(a.Created), cmp.Compare(b.UID, a.UID))
}

// Stronger reports whether a claim beats another one to the same address.
func (c Claim) Stronger(o Claim) bool { return compareClaims(c, o) < 0 }

// later compares two booleans: false comes before true.
func later(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Claimant is a pod that claims an address. The claim must not change while Owners has it.
type Claimant interface{ Claim() Claim }

// Owners decides which pod an IPv4 address belongs to. Several pods may claim an address: the
// pod with the strongest claim owns it, and the next one inherits it. Owners keeps one value per
// claim, so the number of pods in the cluster bounds its size.
type Owners[P Claimant] struct {
	claims map[addr][]P // strongest first
}

// Ownership says which pod an address belongs to.
type Ownership[P Claimant] struct {
	// Owner has the strongest claim. It is the zero value if no pod claims the address.
	Owner P
	// Doubt is set if pods of several namespaces claim the address and no claim gives way. The
	// owner is then unknown, and as a peer the address belongs to no pod.
	Doubt bool
	// Rivals is set if live pods of several namespaces claim the address, all on this node or all
	// on other nodes. Doubt is then also set, unless the state of their nodes decides.
	Rivals bool
	// Home has the pods of this node that endpoints with the address belong to, strongest first:
	// one per namespace in doubt, otherwise at most one. Claims of pods of other nodes do not
	// affect it.
	Home []P
}

// NewOwners returns an Owners without claims.
func NewOwners[P Claimant]() *Owners[P] {
	return &Owners[P]{claims: map[addr][]P{}}
}

// Set records a claim, in place of an earlier one of the same UID. An address
// that is not IPv4 is a bug.
func (o *Owners[P]) Set(a netip.Addr, p P) {
	key, ok := addrOf(a)
	if !ok {
		panic(fmt.Sprintf("BUG: claim to %s", a))
	}
	o.Drop(a, p.Claim().UID)
	at, _ := slices.BinarySearchFunc(o.claims[key], p, func(a, b P) int { return compareClaims(a.Claim(), b.Claim()) })
	o.claims[key] = slices.Insert(o.claims[key], at, p)
}

// Drop removes the claim of a UID, if there is one.
func (o *Owners[P]) Drop(a netip.Addr, uid string) {
	key, _ := addrOf(a)
	o.claims[key] = slices.DeleteFunc(o.claims[key], func(p P) bool { return p.Claim().UID == uid })
	if len(o.claims[key]) == 0 {
		delete(o.claims, key)
	}
}

// Ownership returns which pod the address belongs to. Its cost is linear in the number of claims
// to the address.
func (o *Owners[P]) Ownership(a netip.Addr) Ownership[P] {
	claims := o.of(a)
	if len(claims) == 0 {
		return Ownership[P]{}
	}
	s := Ownership[P]{Owner: claims[0]}
	best := s.Owner.Claim()
	if best.Local {
		s.Home = append(s.Home, s.Owner)
	}
	for _, p := range claims[1:] {
		c := p.Claim()
		switch {
		case best.Deleting || c.Deleting || c.Local != best.Local: // always the weaker claim
			if c.Local && len(s.Home) == 0 {
				s.Home = append(s.Home, p)
			}
		case c.Namespace != best.Namespace:
			s.Rivals = true
			s.Doubt = s.Doubt || !c.losesTo(best)
			if c.Local && !slices.ContainsFunc(s.Home, func(h P) bool { return h.Claim().Namespace == c.Namespace }) {
				s.Home = append(s.Home, p)
			}
		}
	}
	return s
}

// of returns the claims to an address, strongest first.
func (o *Owners[P]) of(a netip.Addr) []P {
	key, ok := addrOf(a)
	if !ok {
		return nil
	}
	return o.claims[key]
}

// Count returns how many pods claim the address.
func (o *Owners[P]) Count(a netip.Addr) int { return len(o.of(a)) }

// Live returns how many pods claim the address and are not being deleted.
func (o *Owners[P]) Live(a netip.Addr) int {
	claims := o.of(a)
	if i := slices.IndexFunc(claims, func(p P) bool { return p.Claim().Deleting }); i >= 0 {
		return i
	}
	return len(claims)
}

// Rivals returns how many pods are Live, and the strongest of them, most at most.
func (o *Owners[P]) Rivals(a netip.Addr, most int) (strongest []P, all int) {
	all = o.Live(a)
	return slices.Clone(o.of(a)[:min(all, most)]), all
}
