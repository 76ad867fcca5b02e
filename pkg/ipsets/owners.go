package ipsets

import (
	"cmp"
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

// Owners decides which pod an address belongs to. Several pods may claim an
// address at a time; one owns it and the next one inherits.
type Owners struct {
	claims map[netip.Addr][]Claim // strongest first
}

// NewOwners returns an Owners without claims.
func NewOwners() *Owners { return &Owners{claims: map[netip.Addr][]Claim{}} }

// Set records a claim, in place of an earlier one of the same UID.
func (o *Owners) Set(addr netip.Addr, c Claim) {
	o.Drop(addr, c.UID)
	claims := o.claims[addr]
	at, _ := slices.BinarySearchFunc(claims, c, compareClaims)
	o.claims[addr] = slices.Insert(claims, at, c)
}

// Drop forgets the claim of a UID; it is no error when there is none.
func (o *Owners) Drop(addr netip.Addr, uid string) {
	claims := slices.DeleteFunc(o.claims[addr], func(c Claim) bool { return c.UID == uid })
	if len(claims) == 0 {
		delete(o.claims, addr)
		return
	}
	o.claims[addr] = claims
}

// Owner returns the UID that owns the address, or "".
func (o *Owners) Owner(addr netip.Addr) string {
	if claims := o.claims[addr]; len(claims) > 0 {
		return claims[0].UID
	}
	return ""
}
