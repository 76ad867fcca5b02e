package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Opinion is what a second binding of HNS makes of the requests of phases 0 and 1: the same
// ones, in the same order, those of phase 1 to objects of its own.
type Opinion struct {
	By          string      `json:"by"`       // the name of the binding
	Compared    int         `json:"compared"` // requests
	Differences []Otherwise `json:"differences,omitempty"`
}

// Otherwise is a request that the two bindings answer otherwise.
type Otherwise struct {
	Probe  string `json:"probe"`
	Asks   string `json:"asks,omitempty"`
	Export string `json:"export"`
	Record int    `json:"record"` // of the first binding
	What   string `json:"what"`
}

// Headline says in a line what differs, and the first of it; empty: nothing.
func (o *Opinion) Headline() string {
	if o == nil || len(o.Differences) == 0 {
		return ""
	}
	d := o.Differences[0]
	return fmt.Sprintf("%s answers otherwise: %d of %d requests, first %s: %s: %s", o.By, len(o.Differences), o.Compared, d.Probe, d.Export, d.What)
}

// mostDifferences is how many are kept: a binding that does not work at all shows in fewer.
const mostDifferences = 200

// second asks the second binding what the first one was asked.
type second struct {
	opinion *Opinion
	ours    *exam // reads once more what differs, as it may have changed meanwhile
	theirs  *exam // makes and takes away the objects by the first binding, renamed
	library Library
	own     bool // the requests are about the doctor's own objects
	probe   string
	differs bool // in this probe
}

// newSecond returns nil when there is no second binding.
func (e *exam) newSecond(by string, library Library) *second {
	if library == nil {
		return nil
	}
	return &second{
		opinion: &Opinion{By: by}, library: library,
		ours:   &exam{ctx: e.ctx, library: e.library, now: e.now},
		theirs: &exam{ctx: e.ctx, library: renamed{e.library}, now: e.now},
	}
}

// told is the opinion; nil: there is none.
func (s *second) told() *Opinion {
	if s == nil {
		return nil
	}
	return s.opinion
}

// cleanSecond takes away what the second opinion of a killed run left. It is called before
// anything is made: two networks may not have one subnet.
func (e *exam) cleanSecond() []string {
	theirs := &exam{ctx: e.ctx, library: renamed{e.library}, now: e.now}
	if _, r := theirs.enumerate("", network, ""); !r.ok() {
		return nil // who makes the first network says so
	}
	return theirs.clean()
}

// ownObjects asks what phase 1 asked. It returns what it could not take away again.
func (s *second) ownObjects(e *exam, records []*Record) []string {
	if s == nil {
		return nil
	}
	s.own, s.theirs.net = true, e.net
	s.ask(records)
	s.theirs.ctx = context.WithoutCancel(s.theirs.ctx)
	return s.theirs.clean()
}

// ask makes the requests of these records, and compares the answers.
func (s *second) ask(records []*Record) {
	if s == nil {
		return
	}
	s.probe, s.differs = "", false
	for i := 0; i < len(records) && !s.ours.stopped(); i++ {
		s.begin(records[i].Probe)
		was := records[i]
		if i+1 < len(records) && was.opensFor(records[i+1]) {
			i++
		}
		s.one(was, records[i])
	}
	s.begin("")
}

// opensFor reports whether an object was opened for the next call.
func (r *Record) opensFor(next *Record) bool {
	return strings.HasPrefix(r.Export, "HcnOpen") && r.ok() &&
		slices.ContainsFunc([]string{"HcnQuery", "HcnModify", "HcnCreate"}, func(verb string) bool { return strings.HasPrefix(next.Export, verb) })
}

// begin goes to another probe. Where the bindings differed, the objects of the second one
// may not be as the next probe expects them.
func (s *second) begin(probe string) {
	if probe == s.probe {
		return
	}
	if s.own && s.differs {
		s.theirs.dropSets()
		s.theirs.clearRules()
	}
	s.probe, s.differs = probe, false
}

// one makes one request. An object is opened by first, for last; both are one record when it
// did not open, and for what opens nothing.
func (s *second) one(first, last *Record) {
	theirs := s.perform(first, last, s.theirs, renamed{s.library})
	if theirs == nil {
		return
	}
	s.opinion.Compared++
	what := compare(last, theirs, s.own)
	for range 2 {
		if what == "" || s.own {
			break // a write is not made again, and of the doctor's own nothing changes by itself
		}
		again := s.perform(first, last, s.ours, s.ours.library)
		what = compare(again, s.perform(first, last, s.theirs, renamed{s.library}), s.own)
	}
	if what == "" || s.own && s.differs {
		return // in a probe of the doctor's own the rest follows from the first
	}
	if s.differs = true; len(s.opinion.Differences) < mostDifferences {
		s.opinion.Differences = append(s.opinion.Differences, Otherwise{Probe: last.Probe, Asks: last.Asks, Export: last.Export, Record: last.N, What: what})
	}
}

// perform makes a request by library. Objects come and go by that of e. nil: there is nothing
// to compare.
func (s *second) perform(first, last *Record, e *exam, library Library) *Record {
	by := &exam{ctx: e.ctx, library: library, now: e.now}
	kind := kindOf(first.Export)
	switch {
	case strings.HasPrefix(first.Export, "HcnEnumerate"):
		_, r := by.call("", first.Export, Arguments{Texts: first.Request})
		return r
	case first.Export == "HNSCall":
		if first.Request[1] != "/globals/version" {
			return nil // the view of the older API, which hcn does not have
		}
		_, r := by.call("", first.Export, Arguments{Texts: first.Request})
		return r
	case strings.HasPrefix(first.Export, "HcnCreate"):
		e.create("", kind, first.ID, 0, first.Request[0])
	case strings.HasPrefix(first.Export, "HcnDelete"):
		e.call("", first.Export, Arguments{ID: first.ID})
	case strings.HasPrefix(last.Export, "HcnCreate"):
		e.with("", kind, first.ID, func(h uint64) *Record { return e.create("", kindOf(last.Export), last.ID, h, last.Request[0]) })
	case first == last && strings.HasPrefix(first.Export, "HcnOpen"):
		return by.read("", kind, first.ID) // a binding may not tell before that there is nothing
	case strings.HasPrefix(first.Export, "HcnOpen"):
		return by.with("", kind, first.ID, func(h uint64) *Record {
			_, r := by.call("", last.Export, Arguments{Handle: h, ID: last.ID, Texts: last.Request})
			return r
		})
	}
	return nil
}

// kindOf is the kind of object that an export is about.
func kindOf(export string) string {
	for _, kind := range []string{network, endpoint, namespace} {
		if strings.Contains(export, kind) {
			return kind
		}
	}
	return ""
}

// Names of the second opinion's own objects.
const (
	secondName = ownName + "-2"
	ownGUIDs   = "d0c70000-5f3a-4c1e-9b6d-"
	secondIDs  = "d0c70000-5f3a-4c1e-9b6e-"
)

// renamed is a library for which the doctor's own objects are those of the second opinion.
type renamed struct{ Library }

// Call implements Library.
func (r renamed) Call(ctx context.Context, export string, a Arguments) (Outcome, error) {
	a.ID = there(a.ID)
	texts := make([]string, len(a.Texts))
	for i, text := range a.Texts {
		texts[i] = there(text)
	}
	a.Texts = texts
	out, err := r.Library.Call(ctx, export, a)
	out.Output, out.Record = back(out.Output), back(out.Record)
	return out, err
}

var (
	toSecond   = strings.NewReplacer(ownGUIDs, secondIDs, ownName, secondName)
	fromSecond = strings.NewReplacer(secondIDs, ownGUIDs, strings.ToUpper(secondIDs), strings.ToUpper(ownGUIDs), secondName, ownName)
)

func there(text string) string { return toSecond.Replace(text) }
func back(text string) string  { return fromSecond.Replace(text) }
