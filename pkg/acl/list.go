package acl

import (
	"encoding/binary"
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Line is one rule of the list.
type Line struct {
	Block bool
	// Tail lines come after all others.
	Tail bool
	// Run counts the changes between allowing and blocking before the line, among those
	// of the tail or among the others. Lines of one run may have one priority, and two of
	// different runs must not.
	Run int
	// Atom has deny twins where the line blocks, and plain names where it allows.
	Atom Atom
	// From is what decides. It is the zero value where a Pass of the tail does, or where
	// the list closes itself.
	From Source
	// Via are the rules that passed the packet on, in order. A packet may have been
	// passed by more: a Pass that changes nothing is not in the list.
	Via []Source
}

// Limit bounds a list.
type Limit struct {
	ACLs int
	// Cost returns as how many ACLs an atom of a line counts, at least one.
	Cost func(Atom) int
}

// Result is a list within its limit.
type Result struct {
	// Lines are in order: the first whose atom has a packet decides. The last has every
	// packet.
	Lines []Line
	// ACLs is the cost of the lines.
	ACLs int
	// Over: the list is over its limit, so Lines is the one that blocks everything.
	Over bool
}

// BlockAll returns the list that blocks everything.
func BlockAll() Result {
	return Result{Lines: []Line{{Block: true, Tail: true}}, ACLs: 1, Over: true}
}

// List makes the list of one endpoint and direction. admin are the rules of the Admin
// tier in their order. tail is what follows: the rules of the NetworkPolicies and a Deny
// of everything if they isolate; or the rules of the Baseline tier, whose Pass allows, and
// an Accept of everything. A tail that has no rule for everything is closed by a line that
// blocks.
//
// A line allows a part of what it should when the plain sets hold less than what belongs
// into them, and blocks at least what it should when the deny twins hold more. So whatever
// sets are on their way, no packet is allowed that the rules deny.
//
// It changes none of the rules, and the lines share their memory.
func List(admin, tail []Entry, limit Limit) Result {
	l := list{limit: limit, work: maxSteps}
	l.parts = partsOf(admin, tail, &l.work)
	if l.make(); l.over() {
		return BlockAll()
	}
	return Result{Lines: l.lines, ACLs: l.acls}
}

// maxSteps bounds the pairs of atoms that List looks at. A list that takes more is far over
// the limit, or most of its products are empty.
const maxSteps = 1 << 19

// parts is what a list is made of.
type parts struct {
	admin []Entry
	// open has for each rule of admin that passes the atoms that have to be passed on.
	open [][]Atom
	// tail ends with a rule for everything.
	tail []Entry
	// reached: there are packets that reach the tail by themselves. Then via is the rule
	// that passes all of them, if one does.
	reached bool
	via     []Source
}

func partsOf(admin, tail []Entry, work *int) parts {
	p := parts{reached: true}
	var all bool
	if p.admin, all = cut(admin); all {
		last := p.admin[len(p.admin)-1]
		if p.reached = last.Action == policy.Pass; p.reached {
			p.admin, p.via = p.admin[:len(p.admin)-1], []Source{last.From}
		}
	}
	if p.tail, all = cut(tail); !all {
		p.tail = append(slices.Clone(p.tail), Entry{Action: policy.Deny, Atoms: []Atom{{}}})
	}
	p.open = overlapping(p.admin, work)
	return p
}

// cut returns the rules up to the first that matches everything, of which one atom is
// left: what comes after it is never reached. It reports whether there is one.
func cut(rules []Entry) ([]Entry, bool) {
	for i, r := range rules {
		if at := slices.IndexFunc(r.Atoms, Atom.everything); at >= 0 {
			r.Atoms = r.Atoms[at : at+1]
			return append(slices.Clone(rules[:i]), r), true
		}
	}
	return rules, false
}

// overlapping returns, of each rule that passes, the atoms that a later rule decides
// otherwise might share packets with. All other packets of it reach the tail by
// themselves. It takes steps from work, and when these are gone, what it did not look at
// overlaps.
func overlapping(rules []Entry, work *int) [][]Atom {
	out := make([][]Atom, len(rules))
	for i := range rules {
		if rules[i].Action != policy.Pass {
			continue
		}
		for _, a := range rules[i].Atoms {
			if *work <= 0 || slices.ContainsFunc(rules[i+1:], func(r Entry) bool {
				return r.Action != policy.Pass && slices.ContainsFunc(r.Atoms, func(b Atom) bool {
					*work -= steps(a, b)
					_, ok := meet(a, b)
					return ok || *work <= 0
				})
			}) {
				out[i] = append(out[i], a)
			}
		}
	}
	return out
}

// steps is about what it takes to meet two atoms.
func steps(a, b Atom) int {
	return 1 + (1+len(a.Sets))*(1+len(b.Sets)) + len(a.Blocks) + len(b.Blocks) + len(a.Ports)*len(b.Ports)
}

// list is a list that is being made.
type list struct {
	parts
	limit Limit
	work  int // steps that are left
	lines []Line
	acls  int
	ids   map[ipsets.Name]uint64 // numbers of sets, for keys
	inRun map[string]bool        // keys of the atoms of the last run
}

// make makes the whole list, or the part of it that is within the limit.
func (l *list) make() {
	for i := range l.admin {
		if r := &l.admin[i]; r.Action == policy.Pass {
			l.passed(l.open[i], r.From)
		} else {
			l.rule(r, false, nil)
		}
		if l.over() {
			return
		}
	}
	if l.reached {
		for i := range l.tail {
			l.rule(&l.tail[i], true, l.via)
		}
	}
}

// rule emits a rule as it is.
func (l *list) rule(r *Entry, tail bool, via []Source) {
	for _, a := range r.Atoms {
		l.decision(r, Line{Tail: tail, Atom: a, Via: via})
	}
}

// decision emits what a rule does to the traffic of a line. A Pass is one of the tail, after
// which nothing comes but to allow.
func (l *list) decision(r *Entry, line Line) {
	line.From, line.Block = r.From, r.Action == policy.Deny
	if r.Action == policy.Pass {
		line.From, line.Via = Source{}, append(slices.Clone(line.Via), r.From)
	}
	l.line(line)
}

// passed emits what the tail does to some atoms. The tail ends with a rule for everything,
// so each packet of them is decided.
func (l *list) passed(atoms []Atom, from Source) {
	for i := range l.tail {
		decided := map[string]bool{} // keys of atoms of which nothing is left for later rules
		for _, t := range l.tail[i].Atoms {
			for _, a := range atoms {
				if l.work -= steps(a, t); l.over() {
					return
				}
				both, ok := meet(a, t)
				if !ok {
					continue
				}
				l.decision(&l.tail[i], Line{Atom: both, Via: []Source{from}})
				if key := l.key(a); allowed(a) && key == l.key(both) {
					decided[key] = true
				}
			}
		}
		atoms = slices.DeleteFunc(slices.Clone(atoms), func(a Atom) bool { return decided[l.key(a)] })
	}
}

// line emits a line, or those that it comes to when it blocks, unless the run has it.
func (l *list) line(line Line) {
	atoms := []Atom{line.Atom}
	switch {
	case line.Block:
		atoms = blocked(line.Atom)
	case !allowed(line.Atom):
		return
	}
	for _, line.Atom = range atoms {
		l.add(line)
	}
}

func (l *list) add(line Line) {
	if n := len(l.lines); n > 0 {
		before := &l.lines[n-1]
		if line.Run = before.Run; line.Tail != before.Tail {
			line.Run, l.inRun = 0, nil
		} else if line.Block != before.Block {
			line.Run, l.inRun = line.Run+1, nil
		}
	}
	key := l.key(line.Atom)
	if l.inRun[key] {
		return
	}
	if l.inRun == nil {
		l.inRun = map[string]bool{}
	}
	l.inRun[key] = true
	l.lines = append(l.lines, line)
	l.acls += l.limit.Cost(line.Atom)
}

// key is equal for equal atoms.
func (l *list) key(a Atom) string {
	if l.ids == nil {
		l.ids = map[ipsets.Name]uint64{}
	}
	ids := make([]uint64, len(a.Sets))
	for i, n := range a.Sets {
		if l.ids[n] == 0 {
			l.ids[n] = uint64(len(l.ids) + 1)
		}
		ids[i] = l.ids[n]
	}
	slices.Sort(ids)
	out := binary.AppendUvarint(nil, uint64(len(ids)))
	for _, id := range ids {
		out = binary.AppendUvarint(out, id)
	}
	for _, b := range a.Blocks {
		addr := b.Addr().As4()
		out = append(append(out, addr[:]...), byte(b.Bits()))
	}
	for _, p := range a.Ports {
		out = append(append(out, p.Protocol...), byte(p.First>>8), byte(p.First), byte(p.Last>>8), byte(p.Last))
	}
	return string(out)
}

// over reports whether the list is over its limit, or took too long to make.
func (l *list) over() bool { return l.acls > l.limit.ACLs || l.work < 0 }

// allowed reports whether a line that allows may have the atom.
func allowed(a Atom) bool { return !slices.ContainsFunc(a.Sets, ipsets.Name.Denies) }

// blocked returns the atoms of the lines that block an atom: it with the deny twins of its
// sets, and, if pods are among these, the same traffic of the addresses that may belong to
// any pod.
func blocked(a Atom) []Atom {
	twin := a
	twin.Sets = slices.Clone(a.Sets)
	for i := range twin.Sets {
		twin.Sets[i] = twin.Sets[i].Deny()
	}
	if !slices.ContainsFunc(a.Sets, ofPods) {
		return []Atom{twin}
	}
	doubt := Atom{Sets: []ipsets.Name{ipsets.Doubt()}, Blocks: a.Blocks, Ports: a.Ports}
	for _, n := range a.Sets {
		if !ofPods(n) && n != ipsets.Doubt() {
			doubt.Sets = append(doubt.Sets, n.Deny())
		}
	}
	return []Atom{twin, doubt}
}

// ofPods reports whether who belongs to a set follows from pods, so that it may be in
// doubt.
func ofPods(n ipsets.Name) bool {
	return n.Kind() != ipsets.KindNodes && n.Kind() != ipsets.KindInBlocks && n.Kind() != ipsets.KindDoubt
}
