package hnsfault

import (
	"maps"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Probe is a packet that is asked about at one endpoint in one direction.
type Probe struct {
	Endpoint  string // its ID
	Direction hns.Direction
	hnssim.Packet
}

// Outcome is what becomes of a probe's packet.
type Outcome uint8

// The outcomes.
const (
	Unanswered Outcome = iota // Trace fails: there is no such endpoint, for one
	Denied
	Allowed
)

// String returns the outcome as one word.
func (o Outcome) String() string { return [...]string{"unanswered", "denied", "allowed"}[o] }

// Transition is one write that gives a probe another outcome.
type Transition struct {
	Probe  Probe
	To     Outcome
	Write  int    // its number among the writes since Watch, from 1
	Op     string // of the client's call, or the method with which somebody else wrote
	Target string // an endpoint's ID, a set's Id, or the network's name
}

// watch is what Watch began.
type watch struct {
	probes []Probe
	last   []Outcome // of the probes, in their order
	writes int
	seen   []Transition
}

// Ask returns the outcome of each probe, all at the same moment.
func (s *Sim) Ask(probes ...Probe) []Outcome {
	var out []Outcome
	s.Inspect(func(trace hnssim.Tracer) { out = ask(trace, probes) })
	return out
}

// Watch asks about the probes after every write that is carried out from now on,
// by halves and by somebody else's hand included. It replaces an earlier watch, whose
// transitions are forgotten. The result is the outcome of each probe now.
func (s *Sim) Watch(probes ...Probe) []Outcome {
	var now []Outcome
	s.Inspect(func(trace hnssim.Tracer) {
		now = ask(trace, probes)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watch = watch{probes: probes, last: slices.Clone(now)}
	})
	return now
}

// Transitions returns what the writes since Watch have changed, in their order,
// those of one write in the order of the probes.
func (s *Sim) Transitions() []Transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.watch.seen)
}

// Writes returns how many writes were carried out since Watch.
func (s *Sim) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch.writes
}

// ask returns what a tracer says about probes.
func ask(trace hnssim.Tracer, probes []Probe) []Outcome {
	out := make([]Outcome, len(probes))
	for i, p := range probes {
		switch v, err := trace(p.Endpoint, p.Direction, p.Packet); {
		case err != nil:
			out[i] = Unanswered
		case v.Allowed:
			out[i] = Allowed
		default:
			out[i] = Denied
		}
	}
	return out
}

// wrote asks about the probes after a write, with the strict simulator locked.
func (s *Sim) wrote(op, target string, trace hnssim.Tracer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.watch
	w.writes++
	for i, now := range ask(trace, w.probes) {
		if now != w.last[i] {
			w.seen = append(w.seen, Transition{Probe: w.probes[i], To: now, Write: w.writes, Op: op, Target: target})
			w.last[i] = now
		}
	}
}

// Unused reports whether a rule is of a named port's number that no peer of the rule
// serves: it matches nobody, and may stay on an endpoint until the next Update. Sets are
// those of HNS, or as they should be, by Id.
func Unused(a hns.ACL, sets map[string]hns.SetPolicy) bool {
	ids, named := a.SetIDs(), false
	in := map[string]int{} // how many of the sets an address is in
	for _, id := range ids {
		named = named || strings.HasPrefix(sets[id].Name, "namedport:")
		leaves := []string{id}
		if sets[id].Type == hns.NestedIPSet {
			leaves = sets[id].Values
		}
		var addrs []string
		for _, leaf := range leaves {
			addrs = append(addrs, sets[leaf].Values...)
		}
		slices.Sort(addrs)
		for _, addr := range slices.Compact(addrs) {
			in[addr]++
		}
	}
	return named && !slices.Contains(slices.Collect(maps.Values(in)), len(ids))
}
