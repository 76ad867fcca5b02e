package recorder

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/state"
)

// segment is the state at one moment and the steps since then.
type segment struct {
	start *start // nil: nothing was known
	steps []*record
	bytes int  // about, start included once it is packed
	count int  // of steps, those that were not kept included
	lost  bool // it does not fit: no more of it is kept
	seen  *seen
}

func newSegment(begins *start, maxIDs int) *segment {
	return &segment{start: begins, seen: newSeen(maxIDs)}
}

// add takes a step, if any are kept.
func (s *segment) add(rec *record) {
	s.count++
	if !s.lost {
		s.steps = append(s.steps, rec)
	}
}

// lose forgets everything. From after steps on the segment is full.
func (s *segment) lose(after int) {
	*s = segment{lost: true, count: after, seen: newSeen(s.seen.maxIDs)}
}

// fullLocked reports whether the next step belongs to another segment. There is no other
// while the state at the beginning of this one is being packed. r.mu must be held.
func (r *Recorder) fullLocked() bool {
	size := r.is.start.size()
	enough := min(max(leastBytes, size), r.cfg.MaxBytes/4)
	return !r.packing && (r.is.count >= r.cfg.MaxSteps || r.is.bytes-size >= enough)
}

// checkpoint begins a segment when the present one is full. No transaction may be running.
// The snapshot is taken now, and packed beside the steps that follow.
func (r *Recorder) checkpoint() {
	r.mu.Lock()
	full := r.fullLocked()
	r.mu.Unlock()
	if !full {
		return
	}
	dump, begins := r.cfg.Snapshot(), &start{ready: make(chan struct{})}
	next := newSegment(begins, r.cfg.MaxIDs)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.packing = true
	r.packers.Go(func() { r.pack(next, begins, dump) })
	r.was, r.is = r.is, next
	if r.was.lost { // the steps between the two states are missing
		r.was = nil
	}
	// An observation that was not handed in yet belongs to both segments.
	for _, rec := range slices.Concat(observationsOf(r.observed), r.running) {
		rec.seg = next
		next.add(rec)
		r.fitLocked(next, rec.bytes)
		if next.lost {
			rec.strip()
		}
	}
}

// pack fills in what a segment begins with. What is too large is lost, and the
// steps with it.
func (r *Recorder) pack(seg *segment, s *start, dump func() state.Dump) {
	text, err := pack(dump())
	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(s.ready)
	r.packing = false
	switch {
	case seg.start != s: // lost meanwhile
	case err != nil || len(text) > r.cfg.MaxBytes/2:
		r.was = nil
		seg.lose(seg.count)
		for _, rec := range slices.Concat(observationsOf(r.observed), r.running) {
			rec.strip()
		}
	default:
		s.text = text
		r.fitLocked(seg, len(text))
	}
}

func observationsOf(list []observed) []*record {
	var out []*record
	for _, o := range list {
		out = append(out, o.step)
	}
	return out
}

// growLocked accounts for what a step keeps more than before. r.mu must be held.
func (r *Recorder) growLocked(rec *record, size int) {
	rec.bytes += size
	r.fitLocked(rec.seg, size)
	if rec.seg.lost {
		rec.step, rec.bytes = rec.step.brief(), 0
	}
}

// fitLocked accounts for what a segment keeps more than before, and forgets what
// is too much. r.mu must be held.
func (r *Recorder) fitLocked(seg *segment, size int) {
	if !seg.lost {
		seg.bytes += size
	}
	if r.was != nil && r.was.bytes+r.is.bytes > r.cfg.MaxBytes {
		r.was = nil
	}
	if r.is.bytes > r.cfg.MaxBytes {
		r.was = nil
		r.is.lose(r.cfg.MaxSteps)
		for _, rec := range r.running {
			rec.strip()
		}
	}
}

// strip leaves of a step what Brief tells.
func (rec *record) strip() {
	rec.step, rec.bytes = rec.step.brief(), 0
	for _, c := range rec.calls {
		*c = c.brief()
	}
}
