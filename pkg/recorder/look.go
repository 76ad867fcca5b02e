package recorder

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// HNS is read about once a second, and mostly nothing is new. Such looks would push out
// the steps that people look for, so they are dropped when they are over. A look that
// fails just as the last one did is dropped too.

// needlessLocked reports whether an observation that is over is not to be kept;
// obs is what it returned. r.mu must be held.
func (r *Recorder) needlessLocked(rec *record, obs *dataplane.Observation) bool {
	switch {
	case rec.step.Error == "" && obs == nil:
		return true
	case rec.step.Error == "":
		r.failed = nil
		return false
	case r.failed == nil || r.failed.step.Error != rec.step.Error || !r.keepsLocked(r.failed):
		r.failed = rec
		return false
	}
	number := r.failed.step.Number
	r.failed.step.Again++
	for i := range r.briefs {
		if r.briefs[i].Number == number {
			r.briefs[i].Again++
		}
	}
	return true
}

// keepsLocked reports whether a step is part of the recording. r.mu must be held.
func (r *Recorder) keepsLocked(rec *record) bool {
	return r.was != nil && slices.Contains(r.was.steps, rec) || slices.Contains(r.is.steps, rec)
}

// dropLocked forgets a step as if it had not been. What later ones share of what
// it read stays. r.mu must be held.
func (r *Recorder) dropLocked(rec *record) {
	r.dropped++
	for _, seg := range []*segment{r.was, r.is} {
		if seg == nil {
			continue
		}
		if i := slices.Index(seg.steps, rec); i >= 0 {
			seg.steps = slices.Delete(seg.steps, i, i+1)
			seg.count--
			seg.bytes -= rec.bytes - rec.shared
		}
	}
}
