package hns

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// listField is a kind of field that lists numbers: addresses or ports.
type listField struct {
	every Span // all of them, which the empty field has too
	// read reads one text of the list. It is plain when the canonical form of
	// the list may have it as it is.
	read func(text string) (sp Span, plain, ok bool)
	// join reports whether a canonical list that has first goes on with next in
	// another way, or not at all.
	join func(first, next Span) bool
	// write appends the canonical text of a span.
	write func(b []byte, sp Span) []byte
}

// The kinds of list fields. Port 0 is none: a range from it begins at 1.
var (
	everyAddress = Span{0, math.MaxUint32}
	everyPort    = Span{1, math.MaxUint16}

	addressField = listField{everyAddress, readLiteral, joinsBlock, appendBlocks}
	portField    = listField{everyPort, readPorts, joinsPorts, appendPorts}
)

// canonical returns the canonical form of a field without blanks around it; the
// field itself when it cannot be read.
func (f *listField) canonical(field string) string {
	if !strings.Contains(field, ",") {
		return f.canonicalOne(field)
	}
	plain, has := true, false
	var last Span
	for text := range strings.SplitSeq(field, ",") {
		trimmed := strings.TrimSpace(text)
		sp, is, ok := f.read(trimmed)
		if !ok {
			return field
		}
		plain = plain && is && len(trimmed) == len(text) && sp != f.every && (!has || !f.join(last, sp))
		last, has = sp, true
	}
	if plain {
		return field
	}
	spans := make(Spans, 0, strings.Count(field, ",")+1)
	for text := range strings.SplitSeq(field, ",") {
		sp, _, _ := f.read(strings.TrimSpace(text))
		spans = append(spans, sp)
	}
	if spans = spans.Sorted(); slices.Equal(spans, Spans{f.every}) {
		return ""
	}
	var b []byte
	for i, sp := range spans {
		if i > 0 {
			b = append(b, ',')
		}
		b = f.write(b, sp)
	}
	return string(b)
}

// canonicalOne is canonical for a list of one, as nearly all are.
func (f *listField) canonicalOne(field string) string {
	sp, plain, ok := f.read(field)
	switch {
	case !ok:
		return field
	case sp == f.every:
		return ""
	case plain:
		return field
	}
	return string(f.write(nil, sp))
}

// isEvery reports whether a text is a word for everything. HNS refuses "Any"
// (hcsshim#1059), but others write it.
func isEvery(text string) bool { return text == "*" || strings.EqualFold(text, "any") }

// readNumber reads the decimal number, of at most most, that a text begins with,
// and returns what follows. It is plain when no zero stands before it.
func readNumber(text string, most uint32) (n uint32, rest string, plain, ok bool) {
	i := 0
	for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
		if n = n*10 + uint32(text[i]-'0'); n > most {
			return 0, text, false, false
		}
	}
	return n, text[i:], i == 1 || i > 0 && text[0] != '0', i > 0
}

// ----- addresses -----

// readQuad reads the IPv4 address that a text begins with and returns what
// follows. Zeros before a number are not read: elsewhere they mean octal.
func readQuad(text string) (n uint32, rest string, ok bool) {
	for i := range 4 {
		if i > 0 {
			if text, ok = strings.CutPrefix(text, "."); !ok {
				return 0, text, false
			}
		}
		octet, after, plain, isNumber := readNumber(text, 255)
		if !isNumber || !plain {
			return 0, text, false
		}
		n, text = n<<8|octet, after
	}
	return n, text, true
}

// readLiteral reads an address, a block with bits or mask behind the stroke,
// whatever its host bits, a range, or a word for everything.
func readLiteral(text string) (sp Span, plain, ok bool) {
	first, rest, ok := readQuad(text)
	switch {
	case !ok:
		return everyAddress, false, isEvery(text)
	case rest == "":
		return Span{first, first}, true, true
	case rest[0] == '/':
		host, short, ok := readHostBits(rest[1:])
		return Span{first &^ host, first | host}, short && first&host == 0, ok
	}
	if rest, ok = strings.CutPrefix(strings.TrimSpace(rest), "-"); !ok {
		return Span{}, false, false
	}
	last, rest, ok := readQuad(strings.TrimSpace(rest))
	return Span{first, last}, false, ok && rest == "" && first <= last
}

// readHostBits reads what stands behind the stroke of a block and returns its
// host bits. It is plain when it is written as it is for a block of more than one
// address and less than all.
func readHostBits(text string) (host uint32, plain, ok bool) {
	if n, rest, short, ok := readNumber(text, 32); ok && rest == "" {
		return uint32(uint64(1)<<(32-n) - 1), short && 0 < n && n < 32, true //nolint:gosec // at most 1<<32 - 1
	}
	mask, rest, ok := readQuad(text)
	return ^mask, false, ok && rest == "" && ^mask&(^mask+1) == 0
}

// joinsBlock reports whether the block next is not behind first, or its other
// half.
func joinsBlock(first, next Span) bool {
	size := first.Last - first.First + 1
	return next.First <= first.Last ||
		next.First-1 == first.Last && next.Last-next.First+1 == size && first.First&size == 0
}

// appendBlocks appends the fewest blocks that are a span, with commas between
// them; a single address is written without a mask.
func appendBlocks(b []byte, sp Span) []byte {
	for at, end := uint64(sp.First), uint64(sp.Last)+1; at < end; {
		// The greatest block that begins here: aligned, and not past the end.
		free := min(bits.TrailingZeros64(at|1<<32), bits.Len64(end-at)-1)
		if at > uint64(sp.First) {
			b = append(b, ',')
		}
		for shift := 24; shift >= 0; shift -= 8 {
			b = strconv.AppendUint(b, at>>shift&255, 10)
			if shift > 0 {
				b = append(b, '.')
			}
		}
		if free > 0 {
			b = append(b, '/')
			b = strconv.AppendInt(b, int64(32-free), 10)
		}
		at += 1 << free
	}
	return b
}

// ----- ports -----

// readPorts reads a port, a range, or a word for everything. Port 0 alone is not
// read: whether HNS takes it for every port is not known.
func readPorts(text string) (sp Span, plain, ok bool) {
	first, rest, plain, ok := readNumber(text, math.MaxUint16)
	switch {
	case !ok:
		return everyPort, false, isEvery(text)
	case rest == "":
		return Span{first, first}, plain, first > 0
	}
	after, ok := strings.CutPrefix(strings.TrimSpace(rest), "-")
	if !ok {
		return Span{}, false, false
	}
	number := strings.TrimSpace(after)
	last, end, short, ok := readNumber(number, math.MaxUint16)
	plain = plain && short && rest[0] == '-' && len(number) == len(after) && 0 < first && first < last
	return Span{max(first, 1), last}, plain, ok && end == "" && first <= last && last > 0
}

// joinsPorts reports whether a range is not behind another, or touches it.
func joinsPorts(first, next Span) bool { return next.First <= first.Last+1 }

// appendPorts appends a port or a range.
func appendPorts(b []byte, sp Span) []byte {
	b = strconv.AppendUint(b, uint64(sp.First), 10)
	if sp.Last > sp.First {
		b = append(b, '-')
		b = strconv.AppendUint(b, uint64(sp.Last), 10)
	}
	return b
}
