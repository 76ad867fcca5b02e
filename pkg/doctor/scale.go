package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Bounds of phase 3.
const (
	scaleTakes = 20 * time.Minute // after which nothing more is asked
	callTakes  = time.Minute      // a call of which twice as much would be too slow
	keptText   = 2000             // bytes of a text in a record
	atOnce     = 512              // sets in one Remove
)

// growth is something of which more and more is asked for.
type growth struct {
	name, settles string
	kind, id      string // of the object that shows it
	first, most   int
	matters       int // what WinNPM may need: a smaller limit refutes
	// write brings it to n; shown counts what is there.
	write func(n int) *Record
	shown func(o object) int
	undo  func()
}

// askScale is phase 3: it doubles everything until HNS refuses.
func (e *exam) askScale() {
	if e.scale == 0 || !e.begin("scale: before it") {
		return
	}
	e.onlyPod()
	from, until := len(e.records), e.now().Add(scaleTakes)
	for _, g := range []growth{e.moreSets(), e.moreMembers(), e.moreNested(), e.moreRules(), e.moreBytes()} {
		if !e.begin("scale: " + g.name) {
			return
		}
		if e.now().After(until) {
			e.find(g.settles, Unknown, fmt.Sprintf("not asked: the others took %v", scaleTakes))
			continue
		}
		e.grow(g)
		g.undo()
		e.cut(from)
	}
	if e.begin("scale: times") {
		e.pace()
		e.longest(from)
		e.cut(from)
	}
	e.modify("", endpoint, ownPod, update().request())
}

// grow doubles one thing until HNS refuses, is slow, or there is enough.
func (e *exam) grow(g growth) {
	taken, took := 0, time.Duration(0)
	for n := g.first; n <= min(g.most, e.scale); n *= 2 {
		began := e.now()
		r := g.write(n)
		needs := e.now().Sub(began)
		switch {
		case e.stopped():
			return
		case r.Error != "":
			e.find(g.settles, Unknown, fmt.Sprintf("of %d: %s", n, r.said()), r)
			return
		case !r.ok():
			e.judgeCode(r, hns.RefusesContent)
			e.holds(g.settles, taken >= g.matters, fmt.Sprintf("%d were taken in %v, and %d refused: %s; WinNPM may need %d", taken, took, n, r.said(), g.matters), r)
			return
		}
		shown, ok := e.look(g.kind, g.id)
		if is := g.shown(shown.object); !ok || is != n {
			e.holds(g.settles, false, fmt.Sprintf("%d were taken, and %d are shown", n, is), r, shown.record)
			return
		}
		taken, took = n, needs
		if took > callTakes {
			break
		}
	}
	verdict := Held
	if taken < g.matters {
		verdict = Unknown // it was too slow, or nobody asked for more
	}
	e.find(g.settles, verdict, fmt.Sprintf("%d are taken, the last in %v", taken, took))
}

// scaleSet is the Id of one of many sets.
func scaleSet(i int) string { return fmt.Sprintf("%s%020d", hereID, i) }

// scaleAddr is one of many addresses.
func scaleAddr(i int) string { return fmt.Sprintf("10.%d.%d.%d", 100+i>>16, i>>8&255, i&255) }

// addSets adds sets of one address each, from a number up to another one.
func (e *exam) addSets(have, n int) *Record {
	var sets []string
	for i := have; i < n; i++ {
		sets = append(sets, leafOf(scaleSet(i), scaleAddr(i)))
	}
	return e.modify(fmt.Sprintf("%d sets", n), network, ownID, add(sets...).request())
}

// removeSets takes sets away again, some at a time.
func (e *exam) removeSets(n int) {
	for first := 0; first < n && !e.stopped(); first += atOnce {
		var sets []string
		for i := first; i < min(first+atOnce, n); i++ {
			sets = append(sets, leafOf(scaleSet(i), scaleAddr(i)))
		}
		e.modify("", network, ownID, remove(sets...).request())
	}
}

func (e *exam) moreSets() growth {
	have := 0
	return growth{
		name: "sets", settles: "S16", kind: network, id: ownID, first: 64, most: 8192, matters: 4096,
		write: func(n int) *Record {
			r := e.addSets(have, n)
			if r.ok() {
				have = n
			}
			return r
		},
		shown: func(o object) int { return len(o.sets()) },
		undo:  func() { e.removeSets(have) },
	}
}

func (e *exam) moreMembers() growth {
	verb := add
	return growth{
		name: "members of a set", settles: "S16", kind: network, id: ownID, first: 64, most: 65536, matters: 8192,
		write: func(n int) *Record {
			values := make([]string, n)
			for i := range values {
				values[i] = scaleAddr(i)
			}
			r := e.modify(fmt.Sprintf("%d members of a set", n), network, ownID, verb(leafOf(setA, strings.Join(values, ","))).request())
			verb = update
			return r
		},
		shown: func(o object) int { return items(text(o.sets()[setA], "Values")) },
		undo:  e.dropSets,
	}
}

func (e *exam) moreNested() growth {
	have, verb := 0, add
	return growth{
		name: "members of a nested set", settles: "S16", kind: network, id: ownID, first: 64, most: 4096, matters: 1024,
		write: func(n int) *Record {
			if r := e.addSets(have, n); !r.ok() {
				return r
			}
			have = n
			ids := make([]string, n)
			for i := range ids {
				ids[i] = scaleSet(i)
			}
			r := e.modify(fmt.Sprintf("%d members of a nested set", n), network, ownID, verb(listOf(setList, strings.Join(ids, ","))).request())
			verb = update
			return r
		},
		shown: func(o object) int { return items(text(o.sets()[setList], "Values")) },
		undo: func() {
			e.modify("", network, ownID, remove(listOf(setList, "")).request())
			e.removeSets(have)
		},
	}
}

// items counts those of a list.
func items(list string) int {
	if list == "" {
		return 0
	}
	return strings.Count(list, ",") + 1
}

// moreRules matters up to the budget of a pod's rules: docs/security.md.
func (e *exam) moreRules() growth {
	return growth{
		name: "rules", settles: "A23", kind: endpoint, id: ownPod, first: 64, most: 8192, matters: 2000,
		write: func(n int) *Record { return e.writeRules(n) },
		shown: func(o object) int { return len(o.rules()) },
		undo:  func() { e.modify("", endpoint, ownPod, update().request()) },
	}
}

func (e *exam) writeRules(n int) *Record {
	rules := make([]string, n)
	for i := range rules {
		rules[i] = aclPolicy(fmt.Sprintf("%s%d", ruleID, i), inAllow+switched+tcp+fmt.Sprintf(`,"LocalPorts":"%d"`, 1+i))
	}
	return e.modify(fmt.Sprintf("%d rules", n), endpoint, ownPod, update(rules...).request())
}

// moreBytes counts in thousands of bytes. They matter up to the budget of a pod's rules.
func (e *exam) moreBytes() growth {
	const perRule = 16 // thousand bytes
	values := make([]string, 0, perRule*1000/16)
	for i := range cap(values) {
		values = append(values, fmt.Sprintf("10.1%02d.1%02d.1%02d/32", i%100, i/100, i%100))
	}
	list := strings.Join(values, ",")
	return growth{
		name: "thousand bytes of an Update", settles: "A23", kind: endpoint, id: ownPod, first: 64, most: 8192, matters: 640,
		write: func(n int) *Record {
			rules := make([]string, n/perRule)
			for i := range rules {
				rules[i] = aclPolicy(fmt.Sprintf("%s%d", ruleID, i), inAllow+switched+`,"RemoteAddresses":`+quoted(list))
			}
			return e.modify(fmt.Sprintf("%d thousand bytes", n), endpoint, ownPod, update(rules...).request())
		},
		shown: func(o object) int { return perRule * len(o.rules()) },
		undo:  func() { e.modify("", endpoint, ownPod, update().request()) },
	}
}

// A node has at most so many pods, and the agent reads each of them once in a minute.
const podsOfNode = 250

// pace asks how long a look at an endpoint takes.
func (e *exam) pace() {
	wrote := e.writeRules(64)
	if !wrote.ok() {
		e.find("E11", Unknown, "an endpoint with 64 rules cannot be had: "+wrote.said(), wrote)
		return
	}
	var took []time.Duration
	for range 11 {
		began := e.now()
		e.look(endpoint, ownPod)
		took = append(took, e.now().Sub(began))
	}
	slices.Sort(took)
	middle := took[len(took)/2]
	e.holds("E11", middle*podsOfNode <= time.Minute, fmt.Sprintf("a look at an endpoint with 64 rules takes %v, and an Update of it %v; a node has up to %d in a minute",
		middle, time.Duration(wrote.TookMicros)*time.Microsecond, podsOfNode), wrote)
}

// longest looks at how long the calls of this phase took.
func (e *exam) longest(from int) {
	slow := e.records[from]
	for _, r := range e.records[from:] {
		if r.TookMicros > slow.TookMicros {
			slow = r
		}
	}
	took := time.Duration(slow.TookMicros) * time.Microsecond
	e.holds("E10", took <= 2*time.Minute && slow.Error == "", fmt.Sprintf("the longest of %d took %v", len(e.records)-from, took), slow)
}

// cut shortens the texts of records, as those of this phase are of megabytes.
func (e *exam) cut(from int) {
	short := func(text string) string {
		if len(text) <= 2*keptText {
			return text
		}
		return strings.ToValidUTF8(text[:keptText], "") + fmt.Sprintf("... %d bytes", len(text))
	}
	for _, r := range e.records[from:] {
		r.Output, r.ErrorRecord = short(r.Output), short(r.ErrorRecord)
		for i, text := range r.Request {
			r.Request[i] = short(text)
		}
	}
}
