package ipsets

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
)

// addr is an IPv4 address as a number. A map of 20,000 of them takes a quarter of
// what one of netip.Addr takes and has no pointer to follow (ADR 8).
type addr uint32

// addrOf returns the number of an IPv4 address; false for any other.
func addrOf(a netip.Addr) (addr, bool) {
	if !a.Is4() {
		return 0, false
	}
	b := a.As4()
	return addr(binary.BigEndian.Uint32(b[:])), true
}

// parseAddr reads a value of a leaf; false for one that is none of ours. HNS may show
// an address with a mask of all its bits.
func parseAddr(text string) (addr, bool) {
	a, err := netip.ParseAddr(strings.TrimSuffix(text, "/32"))
	if err != nil {
		return 0, false
	}
	return addrOf(a)
}

// String returns the address as text.
func (a addr) String() string {
	var four [4]byte
	binary.BigEndian.PutUint32(four[:], uint32(a))
	return netip.AddrFrom4(four).String()
}

// textsOf returns addresses as text, in numerical order.
func textsOf(addrs []addr) []string {
	if len(addrs) == 0 {
		return nil
	}
	slices.Sort(addrs)
	out := make([]string, len(addrs))
	for i, a := range addrs {
		out[i] = a.String()
	}
	return out
}

// unassignable has the blocks that no pod has an address of: "this network", loopback,
// link-local, multicast and broadcast.
var unassignable = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("255.255.255.255/32"),
}

// Assignable reports whether a pod can have the address: whether it is of IPv4, and
// not one that no machine of a network has.
func Assignable(a netip.Addr) bool {
	return a.Is4() && !slices.ContainsFunc(unassignable, func(b netip.Prefix) bool { return b.Contains(a) })
}
