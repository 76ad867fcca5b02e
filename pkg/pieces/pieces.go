// Package pieces copies what a lock guards piece by piece, so that nobody waits
// for the lock longer than one piece takes. The copy is of the moment at which it
// began all the same: whoever changes something notes first how it was.
//
// It knows no locks: a Pace lets go of whatever guards what is copied.
package pieces

// Pace is how something is copied.
type Pace struct {
	// Size is how many values are copied, or looked at, at a time.
	Size int
	// Pause lets go of the lock, does work, and takes the lock again.
	Pause func(work func())
}

// AtOnce is the pace where nobody waits.
func AtOnce() Pace { return Pace{Size: 64, Pause: func(work func()) { work() }} }

// Buffer holds the piece that is being copied. It never grows while the lock is
// held.
type Buffer[T any] struct {
	values []T
	seen   int // values, and what was looked at and not taken
	pace   Pace
	into   func([]T)
}

// NewBuffer returns a Buffer that hands each piece to into, without the lock.
// The piece is valid for the call only. The lock must be held.
func NewBuffer[T any](pace Pace, into func([]T)) *Buffer[T] {
	b := &Buffer[T]{pace: pace, into: into}
	pace.Pause(func() { b.values = make([]T, 0, pace.Size) })
	return b
}

// Add copies a value.
func (b *Buffer[T]) Add(v T) {
	b.values = append(b.values, v)
	b.Look()
}

// Look counts something that was looked at and is not copied.
func (b *Buffer[T]) Look() {
	if b.seen++; b.seen == b.pace.Size {
		b.Flush()
	}
}

// Flush ends the piece. It has to follow the last Add.
func (b *Buffer[T]) Flush() {
	b.pace.Pause(func() { b.into(b.values) })
	b.values, b.seen = b.values[:0], 0
}
