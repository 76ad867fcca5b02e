package ipsets

import (
	"encoding/binary"
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// The bits of a member in a tracker.
const (
	desired uint8 = 1 << iota // it should be in the set
	actual                    // HNS has it in the set, as far as known
	omitted                   // a leaf that should be in a nested set, but is not desired while HNS rejects it
	listed                    // scratch mark of setActual
)

// counts are the numbers of members of a set.
type counts struct {
	desires int // that are desired
	missing int // that are desired and not actual
	surplus int // that are actual and not desired
	omits   int // that are omitted
}

// tracker keeps the desired and the actual members of a set side by side, one byte for each,
// and counts where they differ. One change costs O(1); setActual and clearDesired cost the size
// of the set. A tracker without bits is empty.
type tracker[K comparable] struct {
	bits map[K]uint8
	*counts
}

// put gives a member these bits.
func (t *tracker[K]) put(k K, after uint8) {
	before := t.bits[k]
	t.desires += count(after&desired != 0) - count(before&desired != 0)
	t.missing += count(after&(desired|actual) == desired) - count(before&(desired|actual) == desired)
	t.surplus += count(after&(desired|actual) == actual) - count(before&(desired|actual) == actual)
	t.omits += count(after&omitted != 0) - count(before&omitted != 0)
	switch {
	case after == 0:
		delete(t.bits, k)
	case t.bits == nil:
		t.bits = map[K]uint8{k: after}
	default:
		t.bits[k] = after
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// setDesired makes a member desired, omitted, or with 0 neither. It reports whether the
// desired members changed.
func (t *tracker[K]) setDesired(k K, bit uint8) bool {
	before := t.bits[k]
	after := before&^(desired|omitted) | bit
	t.put(k, after)
	return (before^after)&desired != 0
}

// clearDesired makes no member desired.
func (t *tracker[K]) clearDesired() {
	for k := range t.bits {
		t.setDesired(k, 0)
	}
}

// setActual records that HNS has exactly keys, and returns which came and went.
func (t *tracker[K]) setActual(keys []K) (came, went []K) {
	if t.bits == nil && len(keys) > 0 {
		t.bits = make(map[K]uint8, len(keys))
	}
	for _, k := range keys {
		t.bits[k] |= listed // nothing counts it
	}
	for k, b := range t.bits {
		switch b & (actual | listed) {
		case listed:
			came = append(came, k)
			t.put(k, b&^listed|actual)
		case actual:
			went = append(went, k)
			t.put(k, b&^actual)
		case actual | listed:
			t.put(k, b&^listed)
		}
	}
	return came, went
}

// has reports whether a member has any of the bits.
func (t *tracker[K]) has(k K, bits uint8) bool { return t.bits[k]&bits != 0 }

// all yields the members that have any of the bits, in no order. The tracker may
// be changed meanwhile: a member that leaves is not yielded.
func (t *tracker[K]) all(bits uint8) iter.Seq[K] {
	return func(yield func(K) bool) {
		for k, b := range t.bits {
			if b&bits != 0 && !yield(k) {
				return
			}
		}
	}
}

// take returns the members that have the bit. Of the members in stay it returns the actual ones.
func (t *tracker[K]) take(bit uint8, stay map[any]bool) []K {
	out := make([]K, 0, len(t.bits))
	for k, b := range t.bits {
		if stays := len(stay) > 0 && stay[k]; stays && b&actual != 0 || !stays && b&bit != 0 {
			out = append(out, k)
		}
	}
	return out
}

// only yields the members that are desired and not actual, or actual and not desired.
func (t *tracker[K]) only(bit uint8) iter.Seq[K] {
	return func(yield func(K) bool) {
		if t.missing+t.surplus == 0 {
			return
		}
		for k, b := range t.bits {
			if b&(desired|actual) == bit && !yield(k) {
				return
			}
		}
	}
}

// addr is an IPv4 address as a number. A map of 20,000 of them takes a quarter of
// the memory of a map of netip.Addr, and has no pointers for the garbage collector (ADR 8).
type addr uint32

// addrOf returns the number of an IPv4 address; false for any other.
func addrOf(a netip.Addr) (addr, bool) {
	if !a.Is4() {
		return 0, false
	}
	b := a.As4()
	return addr(binary.BigEndian.Uint32(b[:])), true
}

// parseAddr reads a value of a leaf. It returns false if that is not an IPv4 address. HNS may
// show an address with the mask /32.
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
