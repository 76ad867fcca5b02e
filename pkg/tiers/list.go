package tiers

import (
	"encoding/binary"
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

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
func List[From any](admin, tail []Rule[From], limit Limit) Result[From] {
	l := list[From]{limit: limit, work: maxSteps}
	l.parts = partsOf(admin, tail, &l.work)
	if l.make(); l.over() {
		return BlockAll[From]()
	}
	return Result[From]{Lines: l.lines, ACLs: l.acls}
}

// maxSteps bounds the pairs of atoms that List looks at. A list that takes more is far over
// the limit, or most of its products are empty.
const maxSteps = 1 << 19

// parts is what a list is made of.
type parts[From any] struct {
	admin []Rule[From]
	// open has for each rule of admin that passes the atoms that have to be passed on.
	open [][]Atom
	// tail ends with a rule for everything.
	tail []Rule[From]
	// reached: there are packets that reach the tail by themselves. Then via is the rule
	// that passes all of them, if one does.
	reached bool
	via     []From
}

func partsOf[From any](admin, tail []Rule[From], work *int) parts[From] {
	p := parts[From]{reached: true}
	var all bool
	if p.admin, all = cut(admin); all {
		last := p.admin[len(p.admin)-1]
		if p.reached = last.Action == policy.Pass; p.reached {
			p.admin, p.via = p.admin[:len(p.admin)-1], []From{last.From}
		}
	}
	if p.tail, all = cut(tail); !all {
		p.tail = append(slices.Clone(p.tail), Rule[From]{Action: policy.Deny, Atoms: []Atom{{}}})
	}
	p.open = overlapping(p.admin, work)
	return p
}

// cut returns the rules up to the first that matches everything, of which one atom is
// left: what comes after it is never reached. It reports whether there is one.
func cut[From any](rules []Rule[From]) ([]Rule[From], bool) {
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
func overlapping[From any](rules []Rule[From], work *int) [][]Atom {
	out := make([][]Atom, len(rules))
	for i := range rules {
		if rules[i].Action != policy.Pass {
			continue
		}
		for _, a := range rules[i].Atoms {
			if *work <= 0 || slices.ContainsFunc(rules[i+1:], func(r Rule[From]) bool {
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
type list[From any] struct {
	parts[From]
	limit Limit
	work  int // steps that are left
	lines []Line[From]
	acls  int
	ids   map[ipsets.Name]uint64 // numbers of sets, for keys
	inRun map[string]bool        // keys of the atoms of the last run
}

// make makes the whole list, or the part of it that is within the limit.
func (l *list[From]) make() {
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
func (l *list[From]) rule(r *Rule[From], tail bool, via []From) {
	for _, a := range r.Atoms {
		l.decision(r, Line[From]{Tail: tail, Atom: a, Via: via})
	}
}

// decision emits what a rule does to the traffic of a line. A Pass is one of the tail, after
// which nothing comes but to allow.
func (l *list[From]) decision(r *Rule[From], line Line[From]) {
	line.From, line.Block = r.From, r.Action == policy.Deny
	if r.Action == policy.Pass {
		var nobody From
		line.From, line.Via = nobody, append(slices.Clone(line.Via), r.From)
	}
	l.line(line)
}

// passed emits what the tail does to some atoms. The tail ends with a rule for everything,
// so each packet of them is decided.
func (l *list[From]) passed(atoms []Atom, from From) {
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
				l.decision(&l.tail[i], Line[From]{Atom: both, Via: []From{from}})
				if key := l.key(a); allowed(a) && key == l.key(both) {
					decided[key] = true
				}
			}
		}
		atoms = slices.DeleteFunc(slices.Clone(atoms), func(a Atom) bool { return decided[l.key(a)] })
	}
}

// line emits a line, or those that it comes to when it blocks, unless the run has it.
func (l *list[From]) line(line Line[From]) {
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

func (l *list[From]) add(line Line[From]) {
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
func (l *list[From]) key(a Atom) string {
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
func (l *list[From]) over() bool { return l.acls > l.limit.ACLs || l.work < 0 }
