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
	UID      string
	Deleting bool
	Started  time.Time
	Created  time.Time
}

// compareClaims puts the stronger claim first: not being deleted, then the
// later start, then the later creation, then the greater UID.
func compareClaims(a, b Claim) int {
	if a.Deleting != b.Deleting {
		if b.Deleting {
			return -1
		}
		return 1
	}
	return cmp.Or(b.Started.Compare(a.Started), b.Created.Compare(a.Created), cmp.Compare(b.UID, a.UID))
}

// Claimant is who lays a claim. What it claims must not change while it does.
type Claimant interface{ Claim() Claim }

// Owners decides which pod an IPv4 address belongs to. Several pods may claim an
// address at a time; one owns it and the next one inherits. It keeps what it is
// given, one value for a claim.
type Owners[P Claimant] struct {
	first map[addr]P
	rest  map[addr][]P // strongest first; few addresses have several claims
}

// NewOwners returns an Owners without claims.
func NewOwners[P Claimant]() *Owners[P] {
	return &Owners[P]{first: map[addr]P{}, rest: map[addr][]P{}}
}

// Set records a claim, in place of an earlier one of the same UID. An address
// that is not IPv4 is a bug.
func (o *Owners[P]) Set(a netip.Addr, p P) {
	key, ok := addrOf(a)
	if !ok {
		panic(fmt.Sprintf("BUG: claim to %s", a))
	}
	c := p.Claim()
	o.Drop(a, c.UID)
	first, contested := o.first[key]
	switch {
	case !contested:
		o.first[key] = p
		return
	case compareClaims(c, first.Claim()) < 0:
		o.first[key] = p
		p = first
	}
	at, _ := slices.BinarySearchFunc(o.rest[key], p, func(a, b P) int { return compareClaims(a.Claim(), b.Claim()) })
	o.rest[key] = slices.Insert(o.rest[key], at, p)
}

// Drop forgets the claim of a UID; it is no error when there is none.
func (o *Owners[P]) Drop(a netip.Addr, uid string) {
	key, _ := addrOf(a)
	first, claimed := o.first[key]
	if !claimed {
		return
	}
	rest := o.rest[key]
	if first.Claim().UID != uid {
		rest = slices.DeleteFunc(rest, func(p P) bool { return p.Claim().UID == uid })
	} else if len(rest) > 0 {
		o.first[key] = rest[0]
		rest = slices.Delete(rest, 0, 1)
	} else {
		delete(o.first, key)
	}
	if o.rest[key] = rest; len(rest) == 0 {
		delete(o.rest, key)
	}
}

// Owner returns who owns the address, or the zero value.
func (o *Owners[P]) Owner(a netip.Addr) P {
	key, ok := addrOf(a)
	if !ok {
		var nobody P
		return nobody
	}
	return o.first[key]
}
