package hns

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Span is a range of IPv4 addresses as numbers, or of ports; both ends are included.
type Span struct{ First, Last uint32 }

// MergeSpans sorts spans in place and merges spans that overlap or touch.
func MergeSpans(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.First, b.First) })
	out := spans[:0]
	for _, sp := range spans {
		if n := len(out); n > 0 && (sp.First <= out[n-1].Last || sp.First-1 == out[n-1].Last) {
			out[n-1].Last = max(out[n-1].Last, sp.Last)
			continue
		}
		out = append(out, sp)
	}
	return out
}

// listField is a kind of field that lists numbers: addresses or ports.
type listField struct {
	every Span                              // the span of all numbers, which an empty field means too
	read  func(text string) (Span, bool)    // reads one entry of the list
	write func(text []byte, sp Span) []byte // appends the canonical text of a span
}

// The kinds of list fields. There is no port 0: a range from 0 begins at 1.
var (
	addressField = listField{Span{0, math.MaxUint32}, readLiteral, appendBlocks}
	portField    = listField{Span{1, math.MaxUint16}, readPorts, appendPorts}
)

// canonical returns the canonical form of a field without surrounding blanks. If the field cannot
// be read, it returns the field itself and false.
func (f listField) canonical(field string) (string, bool) {
	if field == "" {
		return "", true
	}
	spans := make([]Span, 0, strings.Count(field, ",")+1)
	for text := range strings.SplitSeq(field, ",") {
		text = strings.TrimSpace(text)
		sp, ok := f.read(text)
		switch {
		case text == "*" || strings.EqualFold(text, "any"): // HNS rejects "Any" (hcsshim#1059), but other programs write it
			sp = f.every
		case !ok:
			return field, false
		}
		spans = append(spans, sp)
	}
	spans = MergeSpans(spans)
	if spans[0] == f.every {
		return "", true
	}
	var text []byte
	for _, sp := range spans {
		text = append(f.write(text, sp), ',')
	}
	return string(text[:len(text)-1]), true
}

// readAddress reads an IPv4 address. It rejects leading zeros, which other programs read as octal.
func readAddress(text string) (uint32, bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is4() {
		return 0, false
	}
	b := addr.As4()
	return binary.BigEndian.Uint32(b[:]), true
}

// readLiteral reads an address, a range, or a block with a prefix length or a mask after the slash.
// Host bits of a block are ignored.
func readLiteral(text string) (Span, bool) {
	if low, high, isRange := strings.Cut(text, "-"); isRange {
		first, okFirst := readAddress(strings.TrimSpace(low))
		last, okLast := readAddress(strings.TrimSpace(high))
		return Span{first, last}, okFirst && okLast && first <= last
	}
	base, length, isBlock := strings.Cut(text, "/")
	addr, ok := readAddress(base)
	if !isBlock {
		return Span{addr, addr}, ok
	}
	mask, okMask := readAddress(length)
	if bits, err := strconv.ParseUint(length, 10, 8); err == nil && bits <= 32 {
		mask, okMask = uint32(uint64(math.MaxUint32)<<(32-bits)), true //nolint:gosec // the upper half is dropped
	}
	host := ^mask
	return Span{addr &^ host, addr | host}, ok && okMask && host&(host+1) == 0
}

// appendBlocks appends the fewest blocks that make up a span, separated by commas. A single address
// is written without a mask.
func appendBlocks(text []byte, sp Span) []byte {
	for at, end := uint64(sp.First), uint64(sp.Last)+1; at < end; {
		// The largest block that begins here is aligned and does not pass the end.
		free := min(bits.TrailingZeros64(at|1<<32), bits.Len64(end-at)-1)
		if at > uint64(sp.First) {
			text = append(text, ',')
		}
		text = netip.AddrFrom4([4]byte{byte(at >> 24), byte(at >> 16), byte(at >> 8), byte(at)}).AppendTo(text)
		if free > 0 {
			text = append(text, '/')
			text = strconv.AppendInt(text, int64(32-free), 10)
		}
		at += 1 << free
	}
	return text
}

// readPorts reads a port or a range. It rejects port 0 alone: whether HNS takes it for every port
// is unknown.
func readPorts(text string) (Span, bool) {
	low, high, isRange := strings.Cut(text, "-")
	if !isRange {
		high = low
	}
	first, errFirst := strconv.ParseUint(strings.TrimSpace(low), 10, 16)
	last, errLast := strconv.ParseUint(strings.TrimSpace(high), 10, 16)
	ok := errFirst == nil && errLast == nil && first <= last && last > 0
	return Span{uint32(max(first, 1)), uint32(last)}, ok
}

// appendPorts appends a port or a range.
func appendPorts(text []byte, sp Span) []byte {
	text = strconv.AppendUint(text, uint64(sp.First), 10)
	if sp.Last > sp.First {
		text = append(text, '-')
		text = strconv.AppendUint(text, uint64(sp.Last), 10)
	}
	return text
}
