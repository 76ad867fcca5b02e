package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// otherEndpoints asks what HNS makes of endpoints that are not those of pods, and of objects
// that are not there.
func (e *exam) otherEndpoints() {
	if e.begin("endpoints: not there") {
		gone := e.read("an endpoint that is not there", endpoint, nobody)
		e.holds("C4", gone.code == 0x803b0002 || gone.code == 0x80070490, gone.said(), gone)
		none := e.read("a network that is not there", network, nobody)
		e.holds("C5", none.code == 0x803b0001, none.said(), none)
	}
	if e.begin("endpoints: not attached") {
		made := e.makeEndpoint("one that is not attached", ownLoose, e.net+".5", 0)
		if !made.ok() {
			e.find("E2", Unknown, "it cannot be made: "+made.said(), made)
		} else {
			r := e.modify("a rule on it", endpoint, ownLoose, request("Add", rule("")))
			e.holds("E2", !r.ok(), r.said(), r)
			e.closed(r)
		}
	}
	if e.begin("endpoints: of another node") {
		made := e.makeEndpoint("one of another node", ownRemote, e.net+".6", 1)
		if !made.ok() {
			e.find("E3", Unknown, "it cannot be made here: "+made.said(), made)
		} else {
			shown, ok := e.look(endpoint, ownRemote)
			if ok {
				e.holds("E3", shown.Flags&1 != 0, fmt.Sprintf("it is shown with flags %d", shown.Flags), shown.record)
			}
			e.closed(e.modify("a rule on it", endpoint, ownRemote, request("Add", rule(""))))
		}
	}
	if e.begin("endpoints: one address twice") {
		twin := e.makeEndpoint("another one with its address", ownTwin, e.net+".4", 0)
		e.holds("E5", twin.ok(), twin.said(), twin)
	}
}

// closed says what the answer of an endpoint that should take no rules means.
func (e *exam) closed(r *Record) {
	if r.ok() {
		e.find("C3", Unknown, "HNS takes the rule", r)
		return
	}
	e.holds("C3", r.class() == hns.RefusesEndpoint, r.said(), r)
}

// slowest looks at how long the calls took.
func (e *exam) slowest() {
	e.probe = "times"
	longest := slices.MaxFunc(e.records, func(a, b *Record) int { return cmp.Compare(a.TookMicros, b.TookMicros) })
	took := time.Duration(longest.TookMicros) * time.Microsecond
	verdict := Unknown // of a few small requests
	if took > 2*time.Minute {
		verdict = Refuted
	}
	e.find("E10", verdict, fmt.Sprintf("the longest of %d took %v", len(e.records), took), longest)
}

// codes looks at all answers: whether one has a code that nobody knows.
func (e *exam) codes() {
	e.probe = "codes"
	var strange []*Record
	for _, r := range e.records {
		if r.Error == "" && int32(r.code) < 0 && r.Name == "" {
			strange = append(strange, r)
		}
	}
	if len(strange) > 0 {
		e.find("C1", Refuted, fmt.Sprintf("%d answers have a code that WinNPM does not know: %s", len(strange), strange[0].said()), first(strange)...)
	}
}
