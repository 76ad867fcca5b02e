package hnsfault

import (
	"maps"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Probe is a packet to trace at one endpoint in one direction.
type Probe struct {
	Endpoint  string // its ID
	Direction hns.DirectionType
	hnssim.Packet
}

// Outcome is the result of tracing a probe's packet.
type Outcome uint8

// The outcomes.
const (
	Unanswered Outcome = iota // Trace fails, for example because the endpoint does not exist
	Denied
	Allowed
)

// String returns the outcome as one word.
func (o Outcome) String() string { return [...]string{"unanswered", "denied", "allowed"}[o] }

// Transition is one write that changes the outcome of a probe.
type Transition struct {
	Probe  Probe
	To     Outcome
	Write  int    // its number among the writes since Watch, from 1
	Op     string // of the client's call, or the method of the Sim for another program's write
	Target string // an endpoint's ID, a set's Id, or the network's name
}

// watch is the state of Watch.
type watch struct {
	probes []Probe
	last   []Outcome // of the probes, in their order
	writes int
	seen   []Transition
}

// Ask returns the outcomes of all probes at one moment.
func (s *Sim) Ask(probes ...Probe) []Outcome {
	var out []Outcome
	s.Inspect(func(trace hnssim.Tracer) { out = ask(trace, probes) })
	return out
}

// Watch traces the probes after every write from now on, including half writes and writes of other
// programs. It replaces an earlier watch and its transitions. The result is the current outcome of each
// probe.
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

// Transitions returns the transitions since Watch, in the order of writes, and for one write in the order
// of probes.
func (s *Sim) Transitions() []Transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.watch.seen)
}

// Writes returns the number of writes since Watch.
func (s *Sim) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch.writes
}

// ask returns the outcomes of probes by a tracer.
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

// wrote traces the probes after a write, with the strict simulator locked.
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

// Unused reports whether a rule is for a number of a named port that no peer of the rule serves. Such a
// rule matches no packet, and may stay on an endpoint until the next Update. sets are the actual or the
// desired sets, by Id.
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
