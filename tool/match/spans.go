package match

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Span is a range of IPv4 addresses as numbers, both ends included.
type Span = hns.Span

// Spans is a list of spans. The methods that search it need the result of Sorted.
type Spans []Span

// ParseSpan parses an IPv4 address, or a block without host bits, in the form of sets and canonical ACLs.
func ParseSpan(text string) (Span, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		if !a.Is4() {
			return Span{}, false
		}
		n := Number(a)
		return Span{First: n, Last: n}, true
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() || p != p.Masked() {
		return Span{}, false
	}
	first := Number(p.Addr())
	return Span{First: first, Last: first | uint32(uint64(1)<<(32-p.Bits())-1)}, true
}

// Number returns an IPv4 address as a number.
func Number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// Sorted sorts the spans in place and merges overlapping and adjacent ones.
func (s Spans) Sorted() Spans { return hns.MergeSpans(s) }

// Contain reports whether one of the spans contains an IPv4 address.
func (s Spans) Contain(a netip.Addr) bool { return s.contain(Number(a)) }

func (s Spans) contain(n uint32) bool {
	i, exact := slices.BinarySearchFunc(s, n, func(sp Span, n uint32) int { return cmp.Compare(sp.First, n) })
	return exact || i > 0 && n <= s[i-1].Last
}
