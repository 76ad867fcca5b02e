package policy

import (
	"fmt"
	"net/netip"

	"go4.org/netipx"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// block returns the addresses of cidr that are in no except. It returns none,
// and says why, if a part is malformed or of IPv6; if the excepts leave none,
// there is nothing to say. Host bits do not count, as in package netip.
func (c *compiler) block(b *networkingv1.IPBlock, at *field.Path) []netipx.IPRange {
	cidr, err := netip.ParsePrefix(b.CIDR)
	if err != nil {
		c.invalid(at.Child("cidr"), peerLeftOut, "%q is no CIDR, write it like 10.0.0.0/8", b.CIDR)
		return nil
	}
	if !cidr.Addr().Is4() {
		c.problem(ReasonIPv6Peer, at.Child("cidr"), "%q is of IPv6, which is not programmed, use IPv4; %s", b.CIDR, peerLeftOut)
		return nil
	}
	var set netipx.IPSetBuilder
	set.AddPrefix(cidr)
	for i, text := range b.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil || !inside(except, cidr) {
			c.invalid(at.Child("except").Index(i), peerLeftOut, "%q is no CIDR inside %s, name only a part of it", text, cidr.Masked())
			return nil
		}
		set.RemovePrefix(except)
	}
	return mustSet(&set).Ranges()
}

// inside reports whether outer contains all of inner; a prefix of the other IP
// version never.
func inside(inner, outer netip.Prefix) bool {
	return inner.Bits() >= outer.Bits() && outer.Contains(inner.Addr())
}

// mustSet builds a set of valid prefixes and ranges; that cannot fail.
func mustSet(b *netipx.IPSetBuilder) *netipx.IPSet {
	set, err := b.IPSet()
	if err != nil {
		panic(fmt.Sprintf("BUG: ip block: %v", err))
	}
	return set
}
