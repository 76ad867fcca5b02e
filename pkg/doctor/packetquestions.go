package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// question is about rules on the pod's endpoint.
type question struct {
	name, settles string
	bare          bool // without closing rules
	sets          []step
	rules         []string
	flows         []flow
	// then is a change of sets after which the packets go as after says.
	then  *step
	after []flow
}

// askAll asks all questions for which the node's style is known.
func (p *packets) askAll() {
	for _, q := range slices.Concat(p.aboutSets(), p.aboutMembers(), p.aboutRules(), p.aboutIPv6()) {
		if !p.begin("packets: " + q.name) {
			return
		}
		switch {
		case p.now().After(p.until):
			p.find(q.settles, Unknown, fmt.Sprintf("not asked: the others took %v", packetsTake))
		case p.style.noSets && len(q.sets) > 0:
			p.find(q.settles, Unknown, "not asked, as no rule with a set works here")
		default:
			p.answer(q)
		}
	}
}

// answer asks one question and says what it means.
func (p *packets) answer(q question) {
	asked, ok := p.ask(q.rules, q.flows, q.bare, q.sets...)
	if !ok {
		return
	}
	r := p.records[asked.Written]
	if slices.ContainsFunc(asked.Packets, func(s packet) bool { return s.Error != "" }) {
		p.find(q.settles, Unknown, "nobody knows what becomes of a packet: "+wrongOrUnclear(asked.Packets), r)
		return
	}
	if q.settles == "A2" { // whatever it is
		is := asked.Packets[1].Is
		p.find("A2", Held, "the packet that an Allow and a Block match: "+string(is), r)
		return
	}
	p.holds(q.settles, asked.RightMicros >= 0, said(asked), r)
	if q.then == nil || asked.RightMicros < 0 {
		return
	}
	changed := p.modify("a change of members", network, ownID, q.then.request())
	if !changed.ok() {
		p.find(q.settles, Unknown, "the set cannot be changed: "+changed.said(), changed)
		return
	}
	next := Question{Probe: p.probe, Written: changed.N}
	p.settle(&next, q.after)
	p.questions = append(p.questions, next)
	if !p.stopped() {
		p.holds(q.settles, next.RightMicros >= 0, "after the change of members: "+said(next), changed)
	}
}

// said is how a question went, in a few words.
func said(q Question) string {
	if q.RightMicros < 0 {
		return wrongOf(q.Packets)
	}
	var flows []string
	for _, s := range q.Packets {
		flows = append(flows, s.Flow+" "+string(s.Is))
	}
	return fmt.Sprintf("after %v: %s", time.Duration(q.RightMicros)*time.Microsecond, strings.Join(flows, ", "))
}

func wrongOrUnclear(packets []packet) string {
	for _, s := range packets {
		if s.Error != "" {
			return s.Flow + ": " + s.Error
		}
	}
	return wrongOf(packets)
}

// ask makes sets, writes a list of rules and sends packets; false: they say nothing, and a
// finding says why.
func (p *packets) ask(rules []string, flows []flow, bare bool, sets ...step) (Question, bool) {
	if why := p.base(flows); why != "" {
		p.unclear(why)
		return Question{}, false
	}
	for _, s := range sets {
		if r := p.modify("sets to name", network, ownID, s.request()); !r.ok() {
			p.unclear("no set can be made: "+r.said(), r)
			return Question{}, false
		}
	}
	return p.write(rules, flows, bare)
}

// write writes a list of rules and sends packets.
func (p *packets) write(rules []string, flows []flow, bare bool) (Question, bool) {
	r := p.modify("a list of rules", endpoint, ownPod, p.style.list(rules, bare).request())
	if !r.ok() {
		p.unclear("the rules are refused: "+r.said(), r)
		return Question{}, false
	}
	q := Question{Probe: p.probe, Written: r.N}
	inForce := p.settle(&q, append([]flow{from("c", tcpNumber, witness, Dropped)}, flows...))
	p.questions = append(p.questions, q)
	switch {
	case p.stopped():
		return q, false
	case inForce < 0:
		p.late = true
		p.unclear("the rules are not in force: "+wrongOf(q.Packets), r)
		return q, false
	}
	p.took = append(p.took, inForce)
	return q, true
}

// unclear says that a question has no answer.
func (p *packets) unclear(why string, records ...*Record) {
	if !p.stopped() {
		p.find("A28", Unknown, why, records...)
	}
}

// addr is the address of an end.
func (p *packets) addr(end string) string { return p.places[end].Addr.String() }

// aboutSets are about what a rule with sets matches.
func (p *packets) aboutSets() []question {
	in := func(n uint16, sets string) string {
		return p.style.open("In", plenty, port("In", tcpNumber, fmt.Sprint(n))+p.style.members("In", sets))
	}
	b, c := p.addr("b"), p.addr("c")
	either := flow{from: "b", to: "pod", protocol: tcpNumber, port: portA}
	b1, c1 := either, either
	c1.from = "c"
	b1.is, c1.is = Passed, Dropped
	nothing := c1
	nothing.from = "b"
	cToo := c1
	cToo.is = Passed
	return []question{
		{
			name: "two sets in a field", settles: "S1",
			sets:  []step{add(leafOf(setA, b+","+c), leafOf(setB, b)), add(listOf(setList, setA))},
			rules: []string{in(portA, setA+","+setB), in(portB, setList+","+setB), in(portC, setB+","+setA)},
			flows: []flow{
				b1, c1, from("b", tcpNumber, portB, Passed), from("c", tcpNumber, portB, Dropped),
				from("b", tcpNumber, portC, Passed), from("c", tcpNumber, portC, Dropped),
			},
		},
		{
			name: "an empty set", settles: "S3", sets: []step{add(leafOf(setA, ""), leafOf(setB, b))},
			rules: []string{in(portA, setA), in(portB, setB)}, flows: []flow{nothing, from("b", tcpNumber, portB, Passed)},
		},
		{
			name: "an empty nested set", settles: "S4", sets: []step{add(listOf(setList, ""))},
			rules: []string{in(portA, setList)}, flows: []flow{b1, cToo},
		},
		{
			name: "a nested set of an empty one", settles: "S5",
			sets:  []step{add(leafOf(setA, ""), leafOf(setB, b)), add(listOf(setList, setA), listOf(setOver, setA+","+setB))},
			rules: []string{in(portA, setList), in(portB, setOver)},
			flows: []flow{nothing, from("b", tcpNumber, portB, Passed), from("c", tcpNumber, portB, Dropped)},
		},
	}
}

// aboutMembers are about members that come and go while a rule stays.
func (p *packets) aboutMembers() []question {
	b, c := p.addr("b"), p.addr("c")
	flows := func(b, c Fate) []flow {
		return []flow{from("b", tcpNumber, portA, b), from("c", tcpNumber, portA, c)}
	}
	change := update(leafOf(setA, c))
	var out []question
	for _, of := range []struct {
		name, set string
		sets      []step
	}{
		{"members of a set", setA, []step{add(leafOf(setA, b))}},
		{"members of a nested set's set", setList, []step{add(leafOf(setA, b)), add(listOf(setList, setA))}},
	} {
		out = append(out, question{
			name: of.name, settles: "S6", sets: of.sets,
			rules: []string{p.style.open("In", plenty, port("In", tcpNumber, "8080")+p.style.members("In", of.set))},
			flows: flows(Passed, Dropped), then: &change, after: flows(Dropped, Passed),
		})
	}
	return out
}

// aboutIPv6 is about a rule that blocks all IPv6, before and after one that allows.
func (p *packets) aboutIPv6() []question {
	const all = `,"RemoteAddresses":"::/0"`
	return []question{{
		name: "a block of all IPv6", settles: "A29",
		rules: []string{p.style.shut("In", plenty-1, all), p.style.open("In", plenty, port("In", tcpNumber, fmt.Sprint(portA))), p.style.shut("In", plenty+1, all)},
		flows: []flow{from("b", tcpNumber, portA, Passed), from("b", tcpNumber, portB, Dropped)},
	}}
}

// aboutRules are about rules without sets.
func (p *packets) aboutRules() []question {
	s := p.style
	on := func(dir string, protocol uint8, n uint16) string { return port(dir, protocol, fmt.Sprint(n)) }
	remote := func(list string) string { return `,"RemoteAddresses":` + quoted(list) }
	b, c := p.addr("b"), p.addr("c")
	questions := []question{
		{
			name: "addresses", settles: "A5",
			rules: []string{
				s.open("In", plenty, on("In", tcpNumber, portA)+remote(b)),
				s.open("In", plenty, on("In", tcpNumber, portB)+remote(b+","+c)),
				s.open("In", plenty, on("In", tcpNumber, portC)+remote(p.net+".0/24")),
				s.open("Out", plenty, on("Out", tcpNumber, portA)+remote(b)),
			},
			flows: []flow{
				from("b", tcpNumber, portA, Passed), from("c", tcpNumber, portA, Dropped),
				from("b", tcpNumber, portB, Passed), from("c", tcpNumber, portB, Passed),
				from("b", tcpNumber, portC, Passed),
				to("b", tcpNumber, portA, Passed), to("c", tcpNumber, portA, Dropped),
			},
		},
		{
			name: "65499 before 65500", settles: "A4", bare: true,
			rules: []string{s.open("In", 65499, on("In", tcpNumber, portA)), s.shut("In", 65500, on("In", tcpNumber, portA))},
			flows: []flow{from("b", tcpNumber, portA, Passed)},
		},
		{
			name: "two rules with one priority", settles: "A2", bare: true,
			rules: []string{s.open("In", plenty, on("In", tcpNumber, portA)), s.shut("In", plenty, on("In", tcpNumber, portA))},
			flows: []flow{from("b", tcpNumber, portA, "")},
		},
		{
			name: "a rule without protocol", settles: "A11", rules: []string{s.open("In", plenty, "")},
			flows: []flow{from("b", tcpNumber, portA, Passed), from("b", udpNumber, portA, Passed)},
		},
		{
			name: "Host rules beside", settles: "A14",
			rules: []string{s.open("In", plenty, on("In", tcpNumber, portA)), hostRule("Allow", "In"), hostRule("Allow", "Out")},
			flows: []flow{from("b", tcpNumber, portA, Passed), from("b", tcpNumber, portB, Dropped)},
		},
	}
	if s.replies {
		return questions // nothing more to ask of them
	}
	both := func(more func(protocol uint8) string) []string {
		return []string{more(tcpNumber), more(udpNumber)}
	}
	return append(questions, question{
		name: "replies where all is blocked", settles: "A22",
		rules: slices.Concat(
			both(func(n uint8) string { return s.open("In", plenty, on("In", n, portA)) }),
			both(func(n uint8) string { return s.shut("Out", plenty, fmt.Sprintf(`,"Protocols":"%d"`, n)) })),
		flows: []flow{from("b", tcpNumber, portA, Passed), from("b", udpNumber, portA, Passed), to("b", tcpNumber, portB, Dropped)},
	}, question{
		name: "replies to what goes out", settles: "A22",
		rules: slices.Concat(
			both(func(n uint8) string { return s.open("Out", plenty, on("Out", n, portA)) }),
			both(func(n uint8) string { return s.shut("In", plenty, fmt.Sprintf(`,"Protocols":"%d"`, n)) })),
		flows: []flow{to("b", tcpNumber, portA, Passed), to("b", udpNumber, portA, Passed), from("b", tcpNumber, portB, Dropped)},
	})
}
