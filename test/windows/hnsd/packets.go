package hnsd

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

// PacketsPath is where the older API says what becomes of packets between endpoints, which no
// real HNS does: under Wine there are no compartments whose sockets could send some. A POST
// has a PacketRequest and is answered with a PacketAnswer.
const PacketsPath = "/winnpm/packets"

// PacketRequest is one packet, or something done with a connection.
type PacketRequest struct {
	From, To string // GUIDs of endpoints
	Protocol uint8
	Port     uint16
	Open     bool   // keep it: its number comes back
	Stream   uint64 // that number, to send more on it, whatever else is here
	Close    bool   // forget it
}

// PacketAnswer says what became of it.
type PacketAnswer struct {
	Fate   string // passed, dropped or reset; empty: Error says why nobody knows
	Error  string
	Stream uint64
}

// stream is a connection between two endpoints.
type stream struct {
	ends   [2]guid
	writes [2]int // to them, when it began
}

// mostStreams is how many connections a client may leave open.
const mostStreams = 4096

// ephemeral is a port of those that answers go to.
const ephemeral = 50000

// packet answers a PacketRequest.
func (s *Server) packet(text string) reply {
	var r PacketRequest
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return encode(PacketAnswer{Error: err.Error()})
	}
	a, err := s.carry(r)
	if err != nil {
		a.Error = err.Error()
	}
	return encode(a)
}

func (s *Server) carry(r PacketRequest) (PacketAnswer, error) {
	if r.Stream != 0 {
		return s.more(r)
	}
	var ends [2]guid
	for i, text := range []string{r.From, r.To} {
		var err error
		if ends[i], err = parseGUID(text); err != nil {
			return PacketAnswer{}, err
		}
	}
	fate, err := s.fate(ends, r)
	a := PacketAnswer{Fate: fate}
	if err != nil || fate != "passed" || !r.Open {
		return a, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) == mostStreams {
		return PacketAnswer{}, fmt.Errorf("%d connections are open", mostStreams)
	}
	s.lastStream++
	s.streams[s.lastStream] = stream{ends, [2]int{s.updates[ends[0]], s.updates[ends[1]]}}
	a.Stream = s.lastStream
	return a, nil
}

// more sends on a connection that is open, or ends it. Rules are about the first packet.
func (s *Server) more(r PacketRequest) (PacketAnswer, error) {
	resets := s.meaning.Resets
	s.mu.Lock()
	defer s.mu.Unlock()
	is, ok := s.streams[r.Stream]
	switch {
	case !ok:
		return PacketAnswer{}, fmt.Errorf("no connection %d", r.Stream)
	case r.Close:
		delete(s.streams, r.Stream)
	case resets && is.writes != [2]int{s.updates[is.ends[0]], s.updates[is.ends[1]]}:
		return PacketAnswer{Fate: "reset"}, nil
	}
	return PacketAnswer{Fate: "passed"}, nil
}

// fate asks the tracer at both ends; where replies need a rule, about a reply too.
func (s *Server) fate(ends [2]guid, r PacketRequest) (string, error) {
	var sims [2]*hnssim.Sim
	var ids [2]string
	var addrs [2]netip.Addr
	for i, id := range ends {
		n, e, err := s.endpoint(id)
		switch {
		case err != nil:
			return "", err
		case s.namespaceOf(id) == "" || len(e.Addrs) == 0:
			return "", fmt.Errorf("endpoint %v is in no namespace, or has no address", id)
		}
		sims[i], ids[i], addrs[i] = n.sim, e.ID, e.Addrs[0]
	}
	there := hns.Packet{Src: addrs[0], Dst: addrs[1], Protocol: r.Protocol, DstPort: r.Port}
	back := hns.Packet{Src: addrs[1], Dst: addrs[0], Protocol: r.Protocol, DstPort: ephemeral}
	passes := true
	for _, at := range []struct {
		end int
		dir hns.Direction
		hns.Packet
		asked bool
	}{
		{0, hns.Out, there, true},
		{1, hns.In, there, true},
		{1, hns.Out, back, s.meaning.Stateless},
		{0, hns.In, back, s.meaning.Stateless},
	} {
		if !at.asked {
			continue
		}
		v, err := sims[at.end].Trace(ids[at.end], at.dir, at.Packet)
		if err != nil {
			return "", err
		}
		passes = passes && v.Allowed
	}
	if passes {
		return "passed", nil
	}
	return "dropped", nil
}

// wroteTo counts the writes to an endpoint; s.mu must not be held.
func (s *Server) wroteTo(endpoint string) {
	id, err := parseGUID(endpoint)
	if err != nil {
		return // it has no connections
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates[id]++
}

// Streams returns how many connections are open.
func (s *Server) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// isPackets reports whether a request of the older API is about packets.
func isPackets(request string) bool {
	method, path, _ := strings.Cut(request, " ")
	return method == "POST" && path == PacketsPath
}
