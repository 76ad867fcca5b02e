package doctor

import (
	"fmt"
	"slices"
)

// style is how rules have to be written on this node, whatever WinNPM assumes: an assumption
// that is refuted must not refute the others too.
type style struct {
	hostPair bool // an Allow of type Host in each direction is needed
	replies  bool // answers need a rule
	higher   bool // the greater number wins
	closing  bool // what no rule matches has to be blocked by one
	bySide   bool // sets of the peer are in Remote, whatever the direction
	noSets   bool // nobody knows where they belong
}

// Priorities of the rules of questions; witness and closing rules depend on the style.
const plenty = 100

// open is a rule that allows, and shut one that blocks.
func (s style) open(dir string, priority int, more string) string {
	return switchRule("Allow", dir, priority, more)
}

func (s style) shut(dir string, priority int, more string) string {
	return switchRule("Block", dir, priority, more)
}

func switchRule(action, dir string, priority int, more string) string {
	return aclPolicy(ruleID, fmt.Sprintf(`"Action":%q,"Direction":%q,"RuleType":"Switch","Priority":%d%s`, action, dir, priority, more))
}

// hostRule is a rule of the other layer.
func hostRule(action, dir string) string {
	return aclPolicy(otherID, fmt.Sprintf(`"Action":%q,"Direction":%q,"RuleType":"Host"`, action, dir))
}

// port is the condition of a rule for a port where connections end, in a direction.
func port(dir string, protocol uint8, list string) string {
	field := map[string]string{"In": "LocalPorts", "Out": "RemotePorts"}[dir]
	return fmt.Sprintf(`,"Protocols":"%d",%q:%q`, protocol, field, list)
}

// members is the condition of a rule in whose sets the peer has to be.
func (s style) members(dir, sets string) string {
	if dir == "In" && !s.bySide {
		return `,"LocalAddresses":` + quoted(sets)
	}
	return `,"RemoteAddresses":` + quoted(sets)
}

// list is a whole list of rules: those of a question, the witness, and what the node needs
// besides. bare is without closing rules.
func (s style) list(rules []string, bare bool) step {
	first, last := 1, 60000
	if s.higher {
		first, last = 65535, 2
	}
	all := append(slices.Clone(rules), s.shut("In", first, port("In", tcpNumber, fmt.Sprint(witness))))
	for _, dir := range []string{"In", "Out"} {
		for _, protocol := range []uint8{tcpNumber, udpNumber} {
			if s.closing && !bare {
				all = append(all, s.shut(dir, last, port(dir, protocol, fmt.Sprintf("%d-%d", portA, portD))))
			}
			if s.replies {
				all = append(all, s.open(dir, plenty, port(dir, protocol, "49152-65535")))
			}
		}
		if s.hostPair {
			all = append(all, hostRule("Allow", dir))
		}
	}
	return update(all...)
}

// calibrate finds out how rules have to be written; false: no packet tells anything here.
func (p *packets) calibrate() bool {
	return p.whatPasses() && p.whichWins() && p.whatIsDenied() && p.whereSetsAre()
}

// whatPasses asks whether an Allow lets through what it matches.
func (p *packets) whatPasses() bool {
	if !p.begin("packets: an Allow at the switch") {
		return false
	}
	rules := []string{p.style.open("In", plenty, port("In", tcpNumber, "8080"))}
	flows := []flow{from("b", tcpNumber, portA, Passed)}
	for _, try := range []style{{}, {hostPair: true}, {replies: true}, {hostPair: true, replies: true}} {
		p.style = try
		q, ok := p.ask(rules, flows, false)
		if !ok {
			return false
		}
		if q.RightMicros >= 0 {
			r := p.records[q.Written]
			p.holds("A14", !try.hostPair, fmt.Sprintf("a Host pair is needed: %v", try.hostPair), r)
			p.holds("A22", !try.replies, fmt.Sprintf("a rule for replies is needed: %v", try.replies), r)
			return true
		}
	}
	p.find("A14", Unknown, "no Allow lets anything through")
	return false
}

// whichWins asks which of two rules counts.
func (p *packets) whichWins() bool {
	if !p.begin("packets: which priority wins") {
		return false
	}
	on := func(n uint16) string { return port("In", tcpNumber, fmt.Sprint(n)) }
	rules := []string{
		p.style.open("In", 100, on(portA)), p.style.shut("In", 200, on(portA)),
		p.style.shut("In", 100, on(portB)), p.style.open("In", 200, on(portB)),
		p.style.open("In", 1, on(portC)), p.style.shut("In", 65535, on(portC)),
		p.style.shut("In", 1, on(portD)), p.style.open("In", 65535, on(portD)),
	}
	flows := []flow{
		from("b", tcpNumber, portA, Passed), from("b", tcpNumber, portB, Dropped),
		from("b", tcpNumber, portC, Passed), from("b", tcpNumber, portD, Dropped),
	}
	q, ok := p.ask(rules, flows, true)
	if !ok {
		return false
	}
	turned := !slices.ContainsFunc(q.Packets[1:], func(s packet) bool { return !s.Wrong() })
	p.style.higher = turned
	p.holds("A1", q.RightMicros >= 0, wrongOf(q.Packets), p.records[q.Written])
	return q.RightMicros >= 0 || turned
}

// whatIsDenied asks what becomes of what no rule matches.
func (p *packets) whatIsDenied() bool {
	if !p.begin("packets: what no rule matches") {
		return false
	}
	rules := []string{p.style.open("In", plenty, port("In", tcpNumber, "8080"))}
	q, ok := p.ask(rules, []flow{
		from("b", tcpNumber, portA, Passed), from("b", tcpNumber, portB, Dropped), from("b", udpNumber, portB, Dropped),
		to("b", tcpNumber, portA, ""), // the other direction, of which there is no rule
	}, false)
	if !ok {
		return false
	}
	p.style.closing = q.RightMicros < 0
	p.holds("A3", q.RightMicros >= 0, wrongOf(q.Packets)+"; out, where there is no rule: "+string(q.Packets[len(q.Packets)-1].Is), p.records[q.Written])
	return true
}

// whereSetsAre asks which field of a rule is the peer's when it has sets.
func (p *packets) whereSetsAre() bool {
	if !p.begin("packets: where sets are") {
		return false
	}
	flows := []flow{
		from("b", tcpNumber, portA, Passed), from("c", tcpNumber, portA, Dropped),
		to("b", tcpNumber, portB, Passed), to("c", tcpNumber, portB, Dropped),
	}
	for _, bySide := range []bool{false, true} {
		p.style.bySide = bySide
		rules := []string{
			p.style.open("In", plenty, port("In", tcpNumber, "8080")+p.style.members("In", setB)),
			p.style.open("Out", plenty, port("Out", tcpNumber, "8081")+p.style.members("Out", setB)),
		}
		q, ok := p.ask(rules, flows, false, add(leafOf(setB, p.addr("b"))))
		if !ok {
			break
		}
		if q.RightMicros >= 0 {
			p.holds("S2", !bySide, fmt.Sprintf("the peer's sets are in Remote, whatever the direction: %v", bySide), p.records[q.Written])
			return true
		}
	}
	if !p.stopped() {
		p.find("S2", Unknown, "no rule with a set lets the right peer through, and no other")
	}
	p.style.noSets = true
	return !p.stopped()
}
