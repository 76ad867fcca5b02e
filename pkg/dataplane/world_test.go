package dataplane_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// do runs commands; a line that starts with ! must fail.
func (w *world) do(lines ...string) {
	w.t.Helper()
	for _, line := range lines {
		w.run(line, line)
	}
}

// settle applies what is due until nothing is, letting time pass, and checks
// that it ends without anything outstanding.
func (w *world) settle() {
	w.t.Helper()
	for range 20 {
		w.transact()
		if w.report.Converged() {
			return
		}
		w.now = w.now.Add(max(w.report.RetryAfter, 1))
	}
	w.t.Fatalf("not converged: %+v\n%s", w.report, w.sim.Dump())
}

// writes returns the number of writes of the last apply.
func (w *world) writes() int {
	n := 0
	for op, count := range w.report.Calls {
		if isWrite(op) {
			n += count
		}
	}
	return n
}

func isWrite(op string) bool {
	return !hnsfault.ReadsOnly(op)
}

type probe = hnsfault.Probe

// probes returns every packet between the addresses, for a few ports, as each
// endpoint sees it. The peer of endpoints that have IPv6 addresses is fd00::9.
func probes(sim *hnsfault.Sim, others []string, ports ...uint16) []probe {
	var addrs []netip.Addr
	byAddr := map[netip.Addr][]string{}
	for _, e := range sim.Endpoints() {
		for _, a := range e.Addrs {
			byAddr[a] = append(byAddr[a], e.ID)
			addrs = append(addrs, a)
		}
	}
	for _, o := range others {
		addrs = append(addrs, netip.MustParseAddr(o))
	}
	if slices.ContainsFunc(addrs, netip.Addr.Is6) {
		addrs = append(addrs, netip.MustParseAddr("fd00::9"))
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	var out []probe
	for _, src := range addrs {
		for _, dst := range addrs {
			if src == dst || src.Is4() != dst.Is4() {
				continue
			}
			for _, port := range ports {
				p := hnssim.Packet{Src: src, Dst: dst, Protocol: 6, DstPort: port}
				for _, id := range byAddr[dst] {
					out = append(out, probe{Endpoint: id, Direction: hns.In, Packet: p})
				}
				for _, id := range byAddr[src] {
					out = append(out, probe{Endpoint: id, Direction: hns.Out, Packet: p})
				}
			}
		}
	}
	return out
}

// verdicts asks the simulator about every probe.
func verdicts(t require.TestingT, sim *hnsfault.Sim, probes []probe) map[probe]bool {
	out := make(map[probe]bool, len(probes))
	for i, outcome := range sim.Ask(probes...) {
		require.NotEqual(t, hnsfault.Unanswered, outcome, "%+v", probes[i])
		out[probes[i]] = outcome == hnsfault.Allowed
	}
	return out
}

// watchI4 has the simulator ask about the probes after every single write. The
// function that it returns ends the watch, checks that each verdict was always
// one of those of the allowed states, and tells how many writes there were.
func watchI4(t *testing.T, sim *hnsfault.Sim, states ...map[probe]bool) (stop func() int) {
	t.Helper()
	all := slices.Collect(maps.Keys(states[0]))
	for i, outcome := range sim.Watch(all...) {
		require.True(t, reached(states, all[i], outcome), "%+v is %v, as in no state", all[i], outcome)
	}
	return func() int {
		t.Helper()
		writes := sim.Writes()
		require.Empty(t, strays(sim.Transitions(), states), sim.Dump())
		sim.Watch()
		return writes
	}
}

// strays returns the transitions to a verdict that none of the states gives.
func strays(seen []hnsfault.Transition, states []map[probe]bool) []string {
	var out []string
	for _, x := range seen {
		if !reached(states, x.Probe, x.To) {
			out = append(out, fmt.Sprintf("write %d (%s %s): %+v is %v, as in no state", x.Write, x.Op, x.Target, x.Probe, x.To))
		}
	}
	return out
}

// reached reports whether one of the states gives a probe this outcome.
func reached(states []map[probe]bool, p probe, outcome hnsfault.Outcome) bool {
	return outcome != hnsfault.Unanswered &&
		slices.ContainsFunc(states, func(s map[probe]bool) bool { return s[p] == (outcome == hnsfault.Allowed) })
}

// setsByName returns the sets of the network.
func setsByName(sim *hnsfault.Sim) map[string]hns.SetPolicy {
	out := map[string]hns.SetPolicy{}
	for _, s := range sim.Sets() {
		out[s.Name] = s
	}
	return out
}

func packet(src, dst string, port uint16) hnssim.Packet {
	return hnssim.Packet{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), Protocol: 6, DstPort: port}
}
