package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Question is one thing that was asked with packets after a write.
type Question struct {
	Probe   string `json:"probe"`
	Written int    `json:"written"` // the record of the write
	// RightMicros is after which time all packets went as WinNPM assumes; negative: they never did.
	RightMicros int64    `json:"rightMicros"`
	Rounds      int      `json:"rounds"` // in each of them every packet was sent once
	Packets     []packet `json:"packets"`
}

// packet is one flow of a question.
type packet struct {
	Flow    string `json:"flow"`              // like "b -> pod TCP 8080"
	Assumed Fate   `json:"assumed,omitempty"` // empty: nobody knows
	Is      Fate   `json:"is"`                // in the end; empty: Error says why nobody knows
	Error   string `json:"error,omitempty"`
}

// Wrong reports whether the packet did not go as assumed.
func (p packet) Wrong() bool { return p.Assumed != "" && p.Is != p.Assumed }

// Bounds of the waiting in phase 2.
const (
	rightRounds  = 3                      // in a row count as stable
	betweenTries = 200 * time.Millisecond // rounds
	firstWait    = 10 * time.Minute       // for a write to be in force: VFP may take minutes
	beginWait    = 4 * time.Minute        // until packets pass at all, before there is any rule
	moreWait     = 10 * time.Second       // for the rest of what one write does
	packetsTake  = 30 * time.Minute       // after which nothing more is asked
)

// Ports of the doctor's endpoints. The witness is closed by a rule of its own in each list of
// rules, so that it shows whether the list is in force.
const (
	portA   = 8080
	portB   = 8081
	portC   = 8082
	portD   = 8083
	witness = 8099
)

var ports = []uint16{portA, portB, portC, portD, witness}

const (
	tcpNumber = 6
	udpNumber = 17
)

// flow is a packet of a question. Ends are "pod", "b" or "c".
type flow struct {
	from, to string
	protocol uint8
	port     uint16
	is       Fate // assumed; empty: nobody knows
}

// from returns a flow to the pod.
func from(peer string, protocol uint8, port uint16, is Fate) flow {
	return flow{peer, "pod", protocol, port, is}
}

// to returns a flow from the pod.
func to(peer string, protocol uint8, port uint16, is Fate) flow {
	return flow{"pod", peer, protocol, port, is}
}

func (f flow) String() string {
	name := map[uint8]string{tcpNumber: "TCP", udpNumber: "UDP"}[f.protocol]
	return fmt.Sprintf("%s -> %s %s %d", f.from, f.to, name, f.port)
}

// packets is phase 2.
type packets struct {
	*exam
	places map[string]Place // of the ends of flows
	until  time.Time        // nothing is asked after it
	took   []time.Duration  // until a list of rules was in force
	late   bool             // one never was
	style  style
}

// askPackets is phase 2: it sends packets between endpoints of its own.
func (e *exam) askPackets() {
	if e.wire == nil || !e.begin("packets: endpoints") {
		return
	}
	e.onlyPod()
	p := &packets{exam: e, places: map[string]Place{}, until: e.now().Add(packetsTake)}
	servers, why := p.open()
	defer func() {
		for _, s := range servers {
			_ = s.Close() // its endpoint goes too
		}
	}()
	if why != "" {
		e.find("A28", Unknown, "no packet can be sent: "+why)
		return
	}
	if p.calibrate() {
		p.askAll()
		p.stream()
	}
	p.speed()
	p.clearAll()
}

// open makes the endpoints and has them answer.
func (p *packets) open() (servers []io.Closer, why string) {
	for _, end := range []struct{ role, space, id, addr string }{
		{"pod", ownNamespace, ownPod, p.net + ".4"},
		{"b", ownSpaceB, ownPeerB, p.net + ".20"},
		{"c", ownSpaceC, ownPeerC, p.net + ".21"},
	} {
		if end.id != ownPod {
			if r := p.makePeer(end.space, end.id, end.addr); !r.ok() {
				return servers, "endpoint " + end.role + ": " + r.said()
			}
		}
		shown := p.read("its compartment", namespace, end.space)
		var space struct {
			NamespaceID uint32 `json:"NamespaceId"`
		}
		if err := json.Unmarshal([]byte(shown.Output), &space); !shown.ok() || err != nil || space.NamespaceID == 0 {
			return servers, "its namespace shows no compartment: " + shown.said()
		}
		at := Place{Endpoint: end.id, Compartment: space.NamespaceID, Addr: netip.MustParseAddr(end.addr)}
		server, err := p.wire.Serve(p.ctx, at, ports)
		if err != nil {
			return servers, fmt.Sprintf("nobody can listen in compartment %d: %v", at.Compartment, err)
		}
		servers = append(servers, server)
		p.places[end.role] = at
	}
	return servers, ""
}

// makePeer makes an endpoint in a namespace of its own.
func (p *packets) makePeer(space, id, addr string) *Record {
	if r := p.create("a namespace of its own", namespace, space, 0, `{"Type":"Host","SchemaVersion":{"Major":2,"Minor":0}}`); !r.ok() {
		return r
	}
	if r := p.makeEndpoint("an endpoint that packets come from", id, addr, 0); !r.ok() {
		return r
	}
	return p.attach(space, id)
}

// round sends each packet once, all at the same time.
func (p *packets) round(flows []flow) []packet {
	out := make([]packet, len(flows))
	var all sync.WaitGroup
	for i, f := range flows {
		out[i] = packet{Flow: f.String(), Assumed: f.is}
		all.Go(func() {
			is, err := p.wire.Send(p.ctx, Flow{p.places[f.from], p.places[f.to], f.protocol, f.port})
			if out[i].Is = is; err != nil {
				out[i].Is, out[i].Error = "", err.Error()
			}
		})
	}
	all.Wait()
	return out
}

// settle sends packets, the witness first, until all went as assumed in some rounds in a row,
// or for as long as that may take. It returns when the witness first went right; negative:
// never. Bounded by firstWait and by the rounds that follow.
func (p *packets) settle(q *Question, flows []flow) (inForce time.Duration) {
	began, inForce, limit := p.now(), -1, firstWait
	if len(p.took) == 0 && !p.late && flows[0].is == Passed {
		limit = beginWait
	}
	rightSince, right := time.Duration(0), 0
	for q.RightMicros = -1; ; p.pause(betweenTries) {
		at := p.now().Sub(began)
		q.Packets = p.round(flows)
		q.Rounds++
		if inForce < 0 && !q.Packets[0].Wrong() {
			inForce = at
			limit = at + max(moreWait, 2*at)
		}
		if slices.ContainsFunc(q.Packets, packet.Wrong) {
			right = 0
		} else if right++; right == 1 {
			rightSince = at
		}
		switch {
		case right == rightRounds:
			q.RightMicros = rightSince.Microseconds()
			return inForce
		case p.now().Sub(began) > limit || p.stopped():
			return inForce
		}
	}
}

// pause waits, or until there is nobody to wait for.
func (e *exam) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.ctx.Done():
	}
}

// clearAll takes rules and sets away, in this order.
func (p *packets) clearAll() {
	p.modify("", endpoint, ownPod, update().request())
	p.dropSets()
}

// base brings the endpoints back to where everything passes; it says why that is not so.
func (p *packets) base(flows []flow) string {
	p.clearAll()
	open := []flow{from("c", tcpNumber, witness, Passed)}
	for _, f := range flows {
		f.is = Passed
		if !slices.Contains(open, f) {
			open = append(open, f)
		}
	}
	var q Question
	if p.settle(&q, open); q.RightMicros < 0 {
		return "without rules: " + wrongOf(q.Packets)
	}
	return ""
}

// wrongOf says which packets went otherwise than assumed.
func wrongOf(packets []packet) string {
	for _, p := range packets {
		if p.Wrong() {
			return fmt.Sprintf("%s: %s, not %s", p.Flow, or(string(p.Is), p.Error), p.Assumed)
		}
	}
	return "all as assumed"
}

// speed says how long it took until rules were in force.
func (p *packets) speed() {
	p.probe = "packets: times"
	slices.Sort(p.took)
	switch {
	case p.late:
		p.find("A28", Refuted, fmt.Sprintf("a list of rules was not in force after %v", firstWait))
	case len(p.took) > 0:
		longest := p.took[len(p.took)-1]
		p.holds("A28", longest <= moreWait, fmt.Sprintf("%d lists of rules: half of them after %v, the slowest after %v", len(p.took), p.took[len(p.took)/2], longest))
	}
}
