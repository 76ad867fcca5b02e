package recorder

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"slices"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// segment is the state at one moment and the steps since then.
type segment struct {
	start []byte // the state as JSON, compressed; nil: nothing was known
	steps []*record
	bytes int  // about, start included
	count int  // of steps, those that were not kept included
	lost  bool // it does not fit: no more of it is kept
	seen  *seen
}

func newSegment(start []byte) *segment {
	return &segment{start: start, bytes: len(start), seen: newSeen()}
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
	*s = segment{lost: true, count: after, seen: newSeen()}
}

// fullLocked reports whether the next step belongs into another segment. r.mu
// must be held.
func (r *Recorder) fullLocked() bool {
	enough := min(max(leastBytes, len(r.is.start)), r.cfg.MaxBytes/4)
	return r.is.count >= r.cfg.MaxSteps || r.is.bytes-len(r.is.start) >= enough
}

// checkpoint begins a segment when the present one is full. No transaction may
// be running.
func (r *Recorder) checkpoint() {
	r.mu.Lock()
	full := r.fullLocked()
	r.mu.Unlock()
	if !full {
		return
	}
	start, err := pack(r.cfg.Dump())
	next := newSegment(start)
	if err != nil || len(start) > r.cfg.MaxBytes/2 {
		next.lose(0)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.was, r.is = r.is, next
	if r.was.lost || next.lost { // nothing would lead from the one to the other
		r.was = nil
	}
	// What was observed and has not come in belongs to what follows too.
	for _, rec := range slices.Concat(observationsOf(r.observed), r.running) {
		rec.seg = next
		next.add(rec)
		r.fitLocked(next, rec.bytes)
		if next.lost {
			rec.strip()
		}
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

// pack writes a dump as it is kept.
func pack(d dataplane.Dump) ([]byte, error) {
	var b bytes.Buffer
	// The fastest level: it is made while events wait.
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(z).Encode(d); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(b.Bytes()), nil // without the buffer's reserve
}

// unpack reads back the state at the beginning, nil when nothing was known.
func (s *segment) unpack() *dataplane.Dump {
	if s.start == nil {
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(s.start))
	if err != nil {
		panic("BUG: what pack wrote is no gzip: " + err.Error())
	}
	d := &dataplane.Dump{}
	if err := json.NewDecoder(z).Decode(d); err != nil {
		panic("BUG: what pack wrote is no dump: " + err.Error())
	}
	return d
}
