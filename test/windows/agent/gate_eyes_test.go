//go:build linux

package agent

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// eyes ask about forbidden packets at the endpoints that plugins make, in every state
// that HNS is ever in: after each call that may change a verdict, before the next one.
type eyes struct {
	h *host

	mu    sync.Mutex // guards following
	all   []*watched // in the order in which they were made
	known map[string]bool
	asked int // forbidden packets at endpoints whose pods ran
}

// watched is an endpoint and what became of the packets there.
type watched struct {
	id     string
	addr   netip.Addr
	probes []hnsfault.Probe // forbidden ones
	runs   time.Time        // since when its pod runs; zero: it does not
	open   []opening        // when and how many passed; the first is its beginning
}

// opening is a moment from which on so many of the forbidden packets pass.
type opening struct {
	at     time.Time
	passed int
}

// strangers are addresses that no pod of a gated node may meet.
var strangers = []netip.Addr{farAddr, outside, netip.MustParseAddr("10.1.0.5"), netip.MustParseAddr("10.1.0.41")}

// openEyes looks until the test ends.
func openEyes(h *host) *eyes {
	e := &eyes{h: h, known: map[string]bool{}}
	h.Observe(func(string) { e.look() })
	h.t.Cleanup(func() { h.Observe(nil) })
	return e
}

// forbidden are packets that no policy of a gated node lets through.
func forbidden(id string, own netip.Addr) (probes []hnsfault.Probe) {
	for _, stranger := range strangers {
		for _, p := range []hnssim.Packet{{Protocol: 6, DstPort: 80}, {Protocol: 6, DstPort: 443}, {Protocol: 17, DstPort: 53}} {
			in, out := p, p
			in.Src, in.Dst = stranger, own
			out.Src, out.Dst = own, stranger
			probes = append(probes, hnsfault.Probe{Endpoint: id, Direction: hns.In, Packet: in}, hnsfault.Probe{Endpoint: id, Direction: hns.Out, Packet: out})
		}
	}
	return probes
}

// look asks about all forbidden packets, and notes what has changed.
func (e *eyes) look() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for _, there := range e.h.Sim().Endpoints() {
		if !e.known[there.ID] && len(there.Addrs) == 1 {
			e.known[there.ID] = true
			e.all = append(e.all, &watched{id: there.ID, addr: there.Addrs[0], probes: forbidden(there.ID, there.Addrs[0])})
		}
	}
	var probes []hnsfault.Probe
	for _, w := range e.all {
		probes = append(probes, w.probes...)
	}
	outcomes := e.h.Sim().Ask(probes...)
	for _, w := range e.all {
		passed := 0
		for _, o := range outcomes[:len(w.probes)] {
			if o == hnsfault.Allowed {
				passed++
			}
		}
		outcomes = outcomes[len(w.probes):]
		if len(w.open) == 0 || w.open[len(w.open)-1].passed != passed {
			w.open = append(w.open, opening{now, passed})
		}
		if !w.runs.IsZero() {
			e.asked += len(w.probes)
		}
	}
}

// run notes that a pod runs since its setup returned, and looks at once.
func (e *eyes) run(a answered) {
	from := a.at
	if a.Ended.Before(from) {
		from = a.Ended
	}
	e.mu.Lock()
	for _, w := range e.all {
		if slices.Contains(a.IPs, w.addr) {
			w.runs = from
		}
	}
	e.mu.Unlock()
	e.look()
}

// endpoint returns the ID of the endpoint of an address.
func (e *eyes) endpoint(own netip.Addr) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.all {
		if w.addr == own {
			return w.id
		}
	}
	return ""
}

// forget begins anew: endpoints that are there are no longer looked at.
func (e *eyes) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all, e.asked = nil, 0
}

// ran returns the endpoints whose pods ran.
func (e *eyes) ran() (all []watched) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.all {
		if !w.runs.IsZero() {
			one := *w
			one.open = slices.Clone(w.open)
			all = append(all, one)
		}
	}
	return all
}

// askAtLeast looks until so many forbidden packets were asked about, and returns how
// many that were.
func (e *eyes) askAtLeast(packets int) int {
	for {
		e.mu.Lock()
		asked := e.asked
		e.mu.Unlock()
		if asked >= packets {
			return asked
		}
		require.NotEmpty(e.h.t, e.ran(), "no pod ran")
		e.look()
	}
}

// leaks returns how many forbidden packets passed at some moment while their pods ran.
func (e *eyes) leaks() (packets int) {
	for _, w := range e.ran() {
		most := 0
		for i, o := range w.open {
			if i+1 == len(w.open) || w.open[i+1].at.After(w.runs) {
				most = max(most, o.passed)
			}
		}
		packets += most
	}
	return packets
}
