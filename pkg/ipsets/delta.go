package ipsets

import (
	"iter"
	"slices"
)

// What is known of one key of a tracker.
const (
	wanted  uint8 = 1 << iota // desired
	applied                   // there, as far as known
	refused                   // part of the content that was refused
	seen                      // scratch mark of reach
)

// tracker keeps desired and applied content side by side, one byte for a key,
// and counts where they differ. One change costs O(1); reach, refuse and unwant
// cost the size of the content. The zero tracker is empty.
type tracker[K comparable] struct {
	bits    map[K]uint8
	wants   int  // keys that are wanted
	differs int  // keys that are wanted or applied, not both
	against int  // keys that are wanted or refused, not both
	refusal bool // the refused content is remembered
}

// mark gives a key these bits and reports whether that changed them.
func (t *tracker[K]) mark(k K, after uint8) bool {
	before := t.bits[k]
	if before == after {
		return false
	}
	t.wants += count(after&wanted != 0) - count(before&wanted != 0)
	t.differs += count(apart(after, applied)) - count(apart(before, applied))
	t.against += count(apart(after, refused)) - count(apart(before, refused))
	switch {
	case after == 0:
		delete(t.bits, k)
	case t.bits == nil:
		t.bits = map[K]uint8{k: after}
	default:
		t.bits[k] = after
	}
	return true
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// apart reports whether a key is wanted or has the other bit, not both.
func apart(bits, other uint8) bool { return (bits&wanted != 0) != (bits&other != 0) }

// want makes a key wanted or not and reports whether that was new.
func (t *tracker[K]) want(k K, yes bool) bool {
	if yes {
		return t.mark(k, t.bits[k]|wanted)
	}
	return t.mark(k, t.bits[k]&^wanted)
}

// unwant drops everything wanted, and with it the memory of a refusal.
func (t *tracker[K]) unwant() {
	for k, b := range t.bits {
		t.mark(k, b&^(wanted|refused))
	}
	t.refusal = false
}

// reach records that exactly keys are applied, and returns which came and went.
func (t *tracker[K]) reach(keys []K) (came, went []K) {
	if t.bits == nil && len(keys) > 0 {
		t.bits = make(map[K]uint8, len(keys))
	}
	for _, k := range keys {
		t.bits[k] |= seen // nothing counts it
	}
	for k, b := range t.bits {
		after := b &^ (applied | seen)
		if b&seen != 0 {
			after |= applied
		}
		t.mark(k, after)
		switch {
		case after&^b&applied != 0:
			came = append(came, k)
		case b&^after&applied != 0:
			went = append(went, k)
		}
	}
	return came, went
}

// refuse remembers that the content as wanted now was refused.
func (t *tracker[K]) refuse() {
	for k, b := range t.bits {
		after := b &^ refused
		if b&wanted != 0 {
			after |= refused
		}
		t.mark(k, after)
	}
	t.refusal = true
}

// forgive drops the memory of a refusal.
func (t *tracker[K]) forgive() {
	for k, b := range t.bits {
		t.mark(k, b&^refused)
	}
	t.refusal = false
}

// rejected reports whether what is wanted is what was refused last.
func (t *tracker[K]) rejected() bool { return t.refusal && t.against == 0 }

// is reports whether a key has any of the bits.
func (t *tracker[K]) is(k K, bits uint8) bool { return t.bits[k]&bits != 0 }

// all yields the keys that have any of the bits, in no order. The tracker may
// be changed on the way: a key that leaves is not yielded.
func (t *tracker[K]) all(bits uint8) iter.Seq[K] {
	return func(yield func(K) bool) {
		for k, b := range t.bits {
			if b&bits != 0 && !yield(k) {
				return
			}
		}
	}
}

// sorted returns the keys that have any of the bits, in order.
func (t *tracker[K]) sorted(bits uint8, compare func(a, b K) int) []K {
	return slices.SortedFunc(t.all(bits), compare)
}
