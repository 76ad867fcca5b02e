package dataplane

import (
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/pieces"
	"github.com/winnpm/winnpm/pkg/state"
)

// DumpInPieces returns a dump for which so many objects are copied at a time, and
// between is called after each piece. It may dump as well.
func (d *Dataplane) DumpInPieces(size int, between func()) state.Dump {
	s := d.Snapshot()
	s.walk(d.inPieces(size, between))
	return s.dump()
}

// StatsInPieces is DumpInPieces for Stats.
func (d *Dataplane) StatsInPieces(size int, between func()) {
	d.with(func(c *core) { _, _ = c.copyStats(d.inPieces(size, between)) })
}

func (d *Dataplane) inPieces(size int, between func()) pieces.Pace {
	return pieces.Pace{Size: size, Pause: func(work func()) {
		d.mu.Unlock()
		defer d.mu.Lock()
		work()
		between()
	}}
}

// Holds takes a snapshot and its dump, and returns how long the lock was held for
// the one and for the longest piece of the other.
func (d *Dataplane) Holds() (begin, longest time.Duration) {
	pace := d.pace()
	let := pace.Pause
	at := time.Now()
	s := d.Snapshot()
	begin = time.Since(at)
	at = time.Now()
	pace.Pause = func(work func()) {
		longest = max(longest, time.Since(at))
		let(work)
		at = time.Now()
	}
	s.walk(pace)
	_ = s.dump()
	return begin, longest
}

// Stage folds a transaction in, and returns how long that took.
func (d *Dataplane) Stage(tx *Transaction) (took time.Duration) {
	d.with(func(c *core) {
		began := time.Now()
		c.stage(tx)
		took = time.Since(began)
	})
	return took
}

// Spellings returns what was learned of how HNS shows what was sent.
func (d *Dataplane) Spellings() (list []state.Spelling) {
	d.with(func(c *core) { list = slices.Clone(c.spellings.list) })
	return list
}
