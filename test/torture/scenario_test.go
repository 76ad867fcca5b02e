package torture

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/cnis"
	"github.com/winnpm/winnpm/test/script"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// step is one thing that happens.
type step struct {
	do     action
	events []event  // of a transaction
	words  []string // of what the CNI or another program does
	wait   time.Duration
}

type action string

const (
	apply   action = "apply" // one transaction
	settle  action = "settle"
	wait    action = "wait"
	observe action = "observe" // the reconciler's round
	hand    action = "hand"    // another program's
	restart action = "restart"
	stop    action = "stop"    // no process runs until the next step is over
	inherit action = "inherit" // the node as Azure NPM left it
	cni     action = "cni"     // an endpoint comes or goes
)

func (s step) String() string {
	switch s.do {
	case apply, inherit:
		texts := make([]string, len(s.events))
		for i, e := range s.events {
			texts[i] = e.text
		}
		return string(s.do) + ": " + strings.Join(texts, "; ")
	case cni, hand:
		return strings.Join(s.words, " ")
	case wait:
		return fmt.Sprintf("wait %s", s.wait)
	case settle, observe, restart, stop:
	}
	return string(s.do)
}

// usualBatch is how many ACLs an Add takes unless a scenario says otherwise.
const usualBatch = 30

// scenario is a start, which nothing disturbs, and what happens then.
type scenario struct {
	name    string
	given   []step
	steps   []step
	packets map[netip.Addr][]packet // by the address of the endpoint that they are asked at
	batch   int                     // ACLs per Add
	splits  bool                    // the size splits changes of single objects
	grace   time.Duration
	blind   bool // nothing is asked during the given part
	memo    memo
	cni     cnis.CNI // of the node
}

// port is what packets are sent to.
type port struct {
	protocol uint8
	number   uint16
}

// stranger is no pod's address.
var stranger = netip.MustParseAddr("10.9.9.9")

// ask fills in the packets: every ordered pair of addresses, to every port, at
// both ends.
func (sc *scenario) ask(addrs []netip.Addr, ports []port) {
	sc.packets = map[netip.Addr][]packet{}
	addrs = slices.Compact(slices.SortedFunc(slices.Values(append(slices.Clone(addrs), stranger)), netip.Addr.Compare))
	for _, src := range addrs {
		for _, dst := range addrs {
			if src == dst {
				continue
			}
			for _, p := range ports {
				sent := hnssim.Packet{Src: src, Dst: dst, Protocol: p.protocol, DstPort: p.number}
				sc.packets[src] = append(sc.packets[src], packet{hns.Out, sent})
				sc.packets[dst] = append(sc.packets[dst], packet{hns.In, sent})
			}
		}
	}
}

// parser reads the text of one scenario; README.md says how it is written.
type parser struct {
	sc     *scenario
	begun  bool // the given part is over
	rev    int
	reader script.Reader
	events []event
	addrs  []netip.Addr
	ports  []port
	azure  bool // Azure NPM was here
}

func parse(name, text string) (*scenario, error) {
	p := &parser{
		sc:     &scenario{name: name, memo: newMemo(), cni: cnis.All()[0], batch: usualBatch},
		ports:  []port{{6, 80}, {6, 81}},
		reader: script.Reader{Now: func() time.Time { return began }},
	}
	at := 0
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("%s, line %d: %v", name, at, p))
		}
	}()
	for i, line := range strings.Split(text, "\n") {
		at = i + 1
		words := script.Words(line)
		if len(words) == 0 {
			continue
		}
		if err := p.line(words); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, at, err)
		}
	}
	if len(p.events) > 0 || !p.begun {
		return nil, fmt.Errorf("%s: events without apply, or no start", name)
	}
	p.sc.ask(p.addrs, p.ports)
	return p.sc, nil
}

// add appends a step to the part that is being read.
func (p *parser) add(s step) {
	if p.begun {
		p.sc.steps = append(p.sc.steps, s)
	} else {
		p.sc.given = append(p.sc.given, s)
	}
}

func (p *parser) line(words []string) (err error) {
	args := words[1:]
	switch words[0] {
	case "apply":
		p.add(step{do: apply, events: p.events})
		p.events = nil
	case "settle", "observe", "restart", "stop":
		p.add(step{do: action(words[0])})
	case "wait":
		s := step{do: wait}
		s.wait, err = time.ParseDuration(args[0])
		p.add(s)
	case "endpoint", "no-endpoint":
		p.add(step{do: cni, words: words})
		if len(args) > 1 {
			p.addrs = append(p.addrs, netip.MustParseAddr(args[1]))
		}
	case "foreign", "drop-acl", "put-set", "drop-set", "restart-hns":
		p.add(step{do: hand, words: words})
	case "start":
		p.start()
	case "azure-npm":
		p.azure = true
	case "ports":
		p.ports = nil
		for _, arg := range args {
			number, proto, _ := strings.Cut(arg, "/")
			n, err := strconv.ParseUint(number, 10, 16)
			if err != nil {
				return err
			}
			p.ports = append(p.ports, port{map[string]uint8{"": 6, "UDP": 17, "SCTP": 132}[proto], uint16(n)})
		}
	case "batch":
		p.sc.batch, err = strconv.Atoi(args[0])
		p.sc.splits = len(args) > 1
	case "grace":
		p.sc.grace, err = time.ParseDuration(args[0])
	default:
		return p.event(words)
	}
	return err
}

// start ends the given part.
func (p *parser) start() {
	if p.azure {
		p.add(step{do: inherit, events: p.events})
	} else {
		if len(p.events) > 0 {
			p.add(step{do: apply, events: p.events})
		}
		p.add(step{do: settle})
	}
	p.events, p.begun = nil, true
}

// event reads what an informer reports. The addresses in it are to be asked about.
func (p *parser) event(words []string) error {
	e := event{text: strings.Join(words, " ")}
	name, is := p.reader.Read(words)
	if name == "" {
		return fmt.Errorf("unknown command %q", words[0])
	}
	if e.name = name; is != nil {
		p.rev++
		e.is = version(p.rev, name, *is)
		p.addrs = append(p.addrs, is.Addrs...)
		if is.Pod != nil && is.Pod.Status.PodIP != "" {
			p.addrs = append(p.addrs, netip.MustParseAddr(is.Pod.Status.PodIP))
		}
		if is.Peer != nil {
			p.addrs = append(p.addrs, netip.MustParseAddr(is.Peer.Status.Addresses[0].Address))
		}
	}
	p.events = append(p.events, e)
	return nil
}
