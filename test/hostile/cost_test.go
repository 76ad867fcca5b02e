package hostile

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hostile/cluster"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// cost is what an attack cost the others.
type cost struct {
	name           string
	bytes, objects int // of the attack

	heap, left int64         // bytes of the agent while it stands, and when it has gone
	cpu        time.Duration // until the agent has nothing left to do
	allocated  uint64        // bytes, until the agent has nothing left to do

	lateCalls int           // calls of HNS until the victim's new policy was in force
	lateTook  time.Duration // in fake time
	fresh     int           // calls of HNS until a new pod of the victim was closed, -1: never
	toldTook  time.Duration // until the victim was told of its own mistake

	calls    int64 // of HNS in the first minute
	most     int   // of them in one second
	sent     int64 // bytes
	warnings int
	events   int

	rules int      // the most that an endpoint of the victim has
	opens []string // packets to or from the victim that passed and should not
	odd   []string // members of sets that are nobody's address
}

// never is how long what did not come took.
const never = time.Hour

// tcp is the number of the protocol.
const tcp = 6

// stranger is an address outside of the cluster.
var stranger = netip.MustParseAddr("198.51.100.7")

// probes are packets that must not pass: a stranger's and the tenant's to the
// victim, on a port that nobody may use and on the one that clients may, and what
// the victim itself must not send.
func probes() []hnsfault.Probe {
	var out []hnsfault.Probe
	for _, from := range []netip.Addr{stranger, cluster.TenantAddr(0), cluster.TenantAddr(7)} {
		for _, port := range []uint16{80, 5432} {
			for pod := range 3 {
				to := cluster.VictimAddr(pod)
				out = append(out, hnsfault.Probe{Endpoint: endpointOf(to), Direction: hns.In, Packet: hnssim.Packet{Src: from, Dst: to, Protocol: tcp, DstPort: port}},
					hnsfault.Probe{Endpoint: endpointOf(to), Direction: hns.Out, Packet: hnssim.Packet{Src: to, Dst: from, Protocol: tcp, DstPort: port}})
			}
		}
	}
	return out
}

// suffer lets an attack come, and with it a policy of the victim and a mistake of
// its own, and returns what that cost. In the end everything has gone again.
func (a *agent) suffer(attack cluster.Attack, turn int) cost {
	c := cost{name: attack.Name, bytes: attack.Bytes(), objects: len(attack.Objects), lateTook: never, toldTook: never}
	c.opens = a.open(a.sim.Watch(probes()...))
	before := a.liveHeap() - a.simulated()
	a.mu.Lock()
	a.second, a.now, a.most, a.events = time.Time{}, 0, 0, 0
	a.mu.Unlock()
	a.sent.Store(0)
	a.calls.Store(0)

	late, odd := cluster.Late(turn), cluster.Odd(turn)
	lateKey, oddKey := policy.Key{Namespace: late.Namespace, Name: late.Name}, policy.Key{Namespace: odd.Namespace, Name: odd.Name}
	cpu, alloc := processTime(), effort.Allocated()
	a.server.Put(attack.Objects...)
	a.rest(100 * time.Millisecond) // in the midst of it
	began, calls := time.Now(), a.calls.Load()
	a.server.Put(late, odd)
	for a.written(lateKey, 0).IsZero() && time.Since(began) < 30*time.Second {
		a.rest(callTakes)
	}
	if at := a.written(lateKey, 0); !at.IsZero() {
		c.lateTook, c.lateCalls = at.Sub(began), int(a.calls.Load()-calls)
	}
	fresh := a.comes(&c, turn)
	a.rest(time.Minute - time.Since(began))
	c.calls, c.sent = a.calls.Load(), a.sent.Load()
	c.cpu, c.allocated = processTime()-cpu, effort.Allocated()-alloc
	c.heap = a.liveHeap() - a.simulated() - before
	c.warnings, c.odd, c.rules = len(a.dp.Warnings()), a.oddMembers(), a.victimRules()
	for a.toldOf(oddKey).IsZero() && time.Since(began) < never {
		a.rest(time.Second)
	}
	if at := a.toldOf(oddKey); !at.IsZero() {
		c.toldTook = at.Sub(began)
	}
	a.mu.Lock()
	c.most, c.events = a.most, a.events
	a.mu.Unlock()

	a.server.Delete(append(attack.Objects[:len(attack.Objects):len(attack.Objects)], late, odd, cluster.Fresh(turn))...)
	if err := a.sim.DeleteEndpoint(fresh); err != nil {
		c.opens = append(c.opens, err.Error())
	}
	a.rest(time.Duration(effort.Of(7, 20)) * time.Minute) // longer than sets stay that nothing needs
	for _, moved := range a.sim.Transitions() {
		if moved.To != hnsfault.Denied {
			c.opens = append(c.opens, fmt.Sprintf("%s: %v -> %v %v at %s", moved.Op, moved.Probe.Src, moved.Probe.Dst, moved.To, moved.Probe.Endpoint))
		}
	}
	a.sim.Watch()
	c.left = a.liveHeap() - a.simulated() - before
	return c
}

// comes lets a new pod of the victim begin on the node, and waits until it is
// closed. It returns its endpoint.
func (a *agent) comes(c *cost, turn int) (endpoint string) {
	addr := netip.MustParseAddr(cluster.FreshAddr)
	endpoint = fmt.Sprintf("%08x-0bad-4e00-9000-00000a580001", turn+1)
	if err := a.sim.CreateEndpoint(hnssim.SimEndpoint{ID: endpoint, Addrs: []netip.Addr{addr}}); err != nil {
		c.opens = append(c.opens, err.Error())
	}
	began, calls := time.Now(), a.calls.Load()
	a.server.Put(cluster.Fresh(turn))
	closed := func() bool {
		return a.sim.Ask(hnsfault.Probe{Endpoint: endpoint, Direction: hns.In, Packet: hnssim.Packet{Src: stranger, Dst: addr, Protocol: tcp, DstPort: 80}})[0] == hnsfault.Denied
	}
	for !closed() && time.Since(began) < 20*time.Second {
		a.rest(callTakes)
	}
	if c.fresh = int(a.calls.Load() - calls); !closed() {
		c.fresh = -1
	}
	return endpoint
}

// open returns the probes that pass.
func (a *agent) open(outcomes []hnsfault.Outcome) []string {
	var out []string
	for i, o := range outcomes {
		if p := probes()[i]; o != hnsfault.Denied {
			out = append(out, fmt.Sprintf("%v -> %v:%d is %v", p.Src, p.Dst, p.DstPort, o))
		}
	}
	return out
}

// oddMembers returns the members of sets in HNS that are nobody's address.
func (a *agent) oddMembers() []string {
	return slices.DeleteFunc(a.members(), func(m string) bool { return !slices.Contains(cluster.NobodysAddrs, m) })
}

// victimRules returns the largest number of rules that an endpoint of the victim has.
func (a *agent) victimRules() int {
	most := 0
	for pod := range 5 {
		e, ok := a.sim.Endpoint(endpointOf(cluster.VictimAddr(pod)))
		if !ok {
			continue
		}
		ours, _ := hns.Endpoint{Policies: e.Policies}.Split()
		most = max(most, len(ours))
	}
	return most
}
