package pieces

import (
	"iter"
	"slices"
)

// Copies are the copies of one map that are being made. Whatever guards the map
// guards them. The zero Copies has none.
type Copies[K comparable, V any] struct {
	open []*Copy[K, V]
}

// Copy is a map as it was at one moment.
type Copy[K comparable, V any] struct {
	among   *Copies[K, V]
	of      map[K]V
	entries []entry[K, V] // of any moment since, but for keys in was
	was     map[K]entry[K, V]
}

type entry[K comparable, V any] struct {
	key   K
	value V
	there bool
}

// Begin begins a copy of a map as it is now. From now on the map's writers call
// Before, until Walk is over.
func (c *Copies[K, V]) Begin(of map[K]V) *Copy[K, V] {
	p := &Copy[K, V]{among: c, of: of, was: map[K]entry[K, V]{}}
	c.open = append(c.open, p)
	return p
}

// Before notes how a key is, before it is set or deleted.
func (c *Copies[K, V]) Before(key K) {
	for _, p := range c.open {
		if _, noted := p.was[key]; !noted {
			v, there := p.of[key]
			p.was[key] = entry[K, V]{key, v, there}
		}
	}
}

// Walk copies the map, and ends the copy. The lock must be held.
func (p *Copy[K, V]) Walk(pace Pace) {
	n := len(p.of)
	b := NewBuffer(pace, func(piece []entry[K, V]) {
		if p.entries == nil {
			p.entries = make([]entry[K, V], 0, n)
		}
		p.entries = append(p.entries, piece...)
	})
	for k, v := range p.of {
		b.Add(entry[K, V]{k, v, true})
	}
	b.Flush()
	p.among.open = slices.DeleteFunc(p.among.open, func(o *Copy[K, V]) bool { return o == p })
}

// Cap is how many entries All yields at most.
func (p *Copy[K, V]) Cap() int { return len(p.entries) + len(p.was) }

// All yields the map as it was when the copy began, in no order, after Walk.
func (p *Copy[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, e := range p.entries {
			if _, noted := p.was[e.key]; !noted && !yield(e.key, e.value) {
				return
			}
		}
		for k, e := range p.was {
			if e.there && !yield(k, e.value) {
				return
			}
		}
	}
}
