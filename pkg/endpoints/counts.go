package endpoints

import (
	"maps"
)

// Writes counts the writes to HNS, and knows which objects have moved since a count: what
// was read before it may be older. Reads of all sets end what it knows.
type Writes struct {
	sequence uint64
	moved    map[string]uint64 // set id, or GUID of an endpoint that is gone → when it moved last
}

// NewWrites returns a count of none.
func NewWrites() *Writes { return &Writes{moved: map[string]uint64{}} }

// Next counts one more.
func (w *Writes) Next() uint64 {
	w.sequence++
	return w.sequence
}

// Sequence returns the count.
func (w *Writes) Sequence() uint64 { return w.sequence }

// Move notes that an object has moved with the write that was counted last.
func (w *Writes) Move(id string) { w.moved[id] = w.sequence }

// MovedSince reports whether an object has moved since a count.
func (w *Writes) MovedSince(id string, sequence uint64) bool { return w.moved[id] > sequence }

// Any reports whether any object has moved since all were read.
func (w *Writes) Any() bool { return len(w.moved) > 0 }

// Forget drops what moved until a count.
func (w *Writes) Forget(sequence uint64) {
	maps.DeleteFunc(w.moved, func(_ string, seq uint64) bool { return seq <= sequence })
}
