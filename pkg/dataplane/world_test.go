package dataplane_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

// newWorld returns a script without a file: a node with the dataplane on the
// simulator, driven by the commands of script. Policies are those of the txtar
// text.
func newWorld(t testing.TB, policies string) *script {
	t.Helper()
	return newScript(t, txtar.Parse([]byte(policies)))
}

// do runs commands; a line that starts with ! must fail.
func (s *script) do(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		s.run(line, line)
	}
}

// quiet applies what is due until nothing is, letting time pass, and checks
// that it ends without anything outstanding.
func (s *script) settle() {
	s.t.Helper()
	for range 20 {
		report, err := s.dp.ApplyDataplane(s.t.Context(), s.tx)
		require.NoError(s.t, err)
		s.tx, s.report = dataplane.NewTransaction(), report
		if report.Converged() {
			return
		}
		s.now = s.now.Add(max(report.RetryAfter, 1))
	}
	s.t.Fatalf("not converged: %+v\n%s", s.report, s.sim.Dump())
}

// writes returns the number of writes of the last apply.
func (s *script) writes() int {
	n := 0
	for op, count := range s.report.Calls {
		if isWrite(op) {
			n += count
		}
	}
	return n
}

func isWrite(op string) bool {
	return !strings.HasSuffix(op, "/Get") && !strings.HasSuffix(op, "/List")
}

// probe is one packet at one endpoint.
type probe struct {
	endpoint string
	dir      hns.Direction
	packet   hnssim.Packet
}

// probes returns every packet between the addresses, for a few ports, as each
// endpoint sees it.
func probes(sim *hnssim.Sim, others []string, ports ...uint16) []probe {
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
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	var out []probe
	for _, src := range addrs {
		for _, dst := range addrs {
			if src == dst {
				continue
			}
			for _, port := range ports {
				p := hnssim.Packet{Src: src, Dst: dst, Protocol: 6, DstPort: port}
				for _, id := range byAddr[dst] {
					out = append(out, probe{id, hns.In, p})
				}
				for _, id := range byAddr[src] {
					out = append(out, probe{id, hns.Out, p})
				}
			}
		}
	}
	return out
}

// verdicts asks the simulator about every probe.
func verdicts(t *testing.T, sim *hnssim.Sim, probes []probe) map[probe]bool {
	t.Helper()
	out := make(map[probe]bool, len(probes))
	for _, p := range probes {
		v, err := sim.Trace(p.endpoint, p.dir, p.packet)
		require.NoError(t, err, "%+v", p)
		out[p] = v.Allowed
	}
	return out
}

// watchI4 checks after every single write that each probe's verdict is one of
// those of the allowed states, which it gets per probe; it returns a function
// that ends the watch and tells how many writes it saw.
func watchI4(t *testing.T, sim *hnssim.Sim, states ...map[probe]bool) (stop func() int) {
	t.Helper()
	writes := 0
	all := slices.Collect(maps.Keys(states[0]))
	sim.OnCall(func(c hnssim.Call, when hnssim.When) {
		if when == hnssim.Before || !isWrite(c.Op) {
			return
		}
		writes++
		for p, allowed := range verdicts(t, sim, all) {
			ok := slices.ContainsFunc(states, func(s map[probe]bool) bool { return s[p] == allowed })
			require.True(t, ok, "after write %d (%s %s): %+v allowed=%v, a verdict of no state\n%s",
				writes, c.Op, c.Target, p, allowed, sim.Dump())
		}
	})
	return func() int {
		sim.OnCall(nil)
		return writes
	}
}

// policyText returns a txtar file with a policy of namespace x.
func policyText(name, spec string) string {
	return fmt.Sprintf("-- %s --\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: x, name: %s}\nspec: %s\n",
		name, name, spec)
}

func mustAddr(text string) netip.Addr { return netip.MustParseAddr(text) }
