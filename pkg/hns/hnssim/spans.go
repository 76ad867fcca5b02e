package hnssim

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
)

// span is a range of IPv4 addresses, both ends included.
type span struct{ first, last uint32 }

// spans are sorted by first and do not overlap.
type spans []span

// parseSpan reads an IPv4 address or a block without host bits.
func parseSpan(text string) (span, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		if !a.Is4() {
			return span{}, false
		}
		n := number(a)
		return span{n, n}, true
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() || p != p.Masked() {
		return span{}, false
	}
	first := number(p.Addr())
	return span{first, first | uint32(uint64(1)<<(32-p.Bits())-1)}, true
}

// isIPv6 reports whether the text is an IPv6 address or block.
func isIPv6(text string) bool {
	if a, err := netip.ParseAddr(text); err == nil {
		return !a.Is4()
	}
	p, err := netip.ParsePrefix(text)
	return err == nil && !p.Addr().Is4()
}

// number returns an IPv4 address as a number.
func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// sorted sorts in place and merges what overlaps.
func (s spans) sorted() spans {
	slices.SortFunc(s, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	out := s[:0]
	for _, sp := range s {
		if n := len(out); n > 0 && sp.first <= out[n-1].last {
			out[n-1].last = max(out[n-1].last, sp.last)
			continue
		}
		out = append(out, sp)
	}
	return out
}

// contain reports whether one of the spans has n.
func (s spans) contain(n uint32) bool {
	i, exact := slices.BinarySearchFunc(s, n, func(sp span, n uint32) int { return cmp.Compare(sp.first, n) })
	return exact || i > 0 && n <= s[i-1].last
}
