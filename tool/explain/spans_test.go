package explain_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// someRules are rules of one direction about few ports, which lie side by side, overlap, and
// touch both ends.
func someRules(r *rand.Rand, dir hns.DirectionType) (out []hns.ACL) {
	port := func() int { return []int{1, 2, 79, 80, 81, 82, 443, 65534, 65535}[r.IntN(9)] }
	for range r.IntN(5) {
		a := hns.ACL{Direction: dir, RuleType: hns.Switch, Priority: uint16(200 + r.IntN(9)), Action: hns.Allow, Protocols: []string{"", "6", "17", "132", "1"}[r.IntN(5)]}
		if r.IntN(2) == 0 {
			a.Action = hns.Block
		}
		ports := fmt.Sprint(port())
		if first, last := port(), port(); first < last {
			ports = fmt.Sprintf("%d-%d,%s", first, last, ports)
		}
		if dir == hns.In {
			a.LocalPorts = ports
		} else {
			a.RemotePorts = ports
		}
		out = append(out, a)
	}
	return out
}

// said is what both ends say, apart from how they came to it.
func said(egress, ingress explain.Half) []any {
	return []any{egress.Judged, egress.Actual, egress.Wanted(), ingress.Judged, ingress.Actual, ingress.Wanted()}
}

// TestSpansSayWhatPortsSay: spans are all ports of all protocols, and each port has the verdict
// of its span.
func TestSpansSayWhatPortsSay(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 19))
		d := state.Dump{Pods: []state.PodDump{pod("x/a", "10.0.0.1", labels("app", "a")), pod("x/b", "10.0.0.2", labels("app", "b"))}}
		for i := range d.Pods {
			p := &d.Pods[i]
			p.Endpoints = []string{p.Pod}
			ep := state.EndpointDump{ID: p.Pod, Addrs: []string{p.Addr}, Pod: p.Pod, Known: r.IntN(4) > 0}
			for _, dir := range []hns.DirectionType{hns.In, hns.Out} {
				ep.Applied, ep.Wanted, ep.ForeignRules = append(ep.Applied, someRules(r, dir)...), append(ep.Wanted, someRules(r, dir)...), append(ep.ForeignRules, someRules(r, dir)...)
			}
			if !ep.Known {
				ep.Maybe = [][]hns.ACL{ep.Applied, append(someRules(r, hns.In), someRules(r, hns.Out)...)}
			}
			d.Endpoints = append(d.Endpoints, ep)
		}
		p, err := explain.New(d).Pair("x/a", "x/b")
		require.NoError(t, err)
		spans, whole := p.Spans(1000)
		require.True(t, whole)
		next := map[policy.Protocol]int{policy.TCP: 1, policy.UDP: 1, policy.SCTP: 1}
		for _, s := range spans {
			require.Equal(t, next[s.Protocol], int(s.First), "seed %d: none twice, none left out", seed)
			next[s.Protocol] = int(s.Last) + 1
			for range 6 {
				port := s.First + uint16(r.IntN(int(s.Last-s.First)+1))
				egress, ingress := p.Halves(port, s.Protocol)
				require.Equal(t, said(egress, ingress), said(s.Egress, s.Ingress), "seed %d: %d/%s in %d-%d", seed, port, s.Protocol, s.First, s.Last)
			}
			for _, port := range []uint16{s.First, s.Last} {
				egress, ingress := p.Halves(port, s.Protocol)
				require.Equal(t, said(egress, ingress), said(s.Egress, s.Ingress))
			}
		}
		for protocol, n := range next {
			require.Equal(t, math.MaxUint16+1, n, protocol)
		}
		few, whole := p.Spans(len(spans) - 1)
		require.False(t, whole)
		require.Equal(t, spans[:len(spans)-1], few)
	}
}
