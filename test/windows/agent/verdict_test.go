//go:build linux

package agent

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// askedPorts are inside and outside of everything that a drawer draws.
var askedPorts = []struct {
	protocol corev1.Protocol
	port     uint16
}{
	{corev1.ProtocolTCP, 80}, {corev1.ProtocolTCP, 8080}, {corev1.ProtocolTCP, 8090}, {corev1.ProtocolTCP, 8091},
	{corev1.ProtocolTCP, 443}, {corev1.ProtocolUDP, 53}, {corev1.ProtocolUDP, 5353},
}

var (
	protocolNumbers = map[corev1.Protocol]uint8{corev1.ProtocolTCP: 6, corev1.ProtocolUDP: 17}
	protocolNames   = map[uint8]corev1.Protocol{6: corev1.ProtocolTCP, 17: corev1.ProtocolUDP}
)

// outside is an address that no pod and no node has.
var outside = netip.MustParseAddr("172.16.5.4")

// known is the cluster as the API server has it now.
func (h *host) known(k *kube, nodeAddrs ...netip.Addr) oracle.Cluster {
	h.t.Helper()
	c, err := k.cluster(h.t.Context())
	require.NoError(h.t, err)
	c.NodeAddrs = nodeAddrs
	return c
}

// probes returns every packet between an endpoint and any pod, the node, somebody
// outside, and more addresses, in both directions.
func (h *host) probes(c oracle.Cluster, more ...netip.Addr) []hnsfault.Probe {
	others := slices.Concat([]netip.Addr{outside}, c.NodeAddrs, more)
	for i := range c.Pods {
		others = append(others, oracle.Address(&c.Pods[i]))
	}
	var all []hnsfault.Probe
	for own, id := range h.endpoints {
		for _, other := range others {
			if other == own {
				continue
			}
			for _, p := range askedPorts {
				in := hnssim.Packet{Src: other, Dst: own, Protocol: protocolNumbers[p.protocol], DstPort: p.port}
				out := in
				out.Src, out.Dst = own, other
				all = append(all,
					hnsfault.Probe{Endpoint: id, Direction: hns.In, Packet: in},
					hnsfault.Probe{Endpoint: id, Direction: hns.Out, Packet: out})
			}
		}
	}
	return all
}

// tally counts verdicts.
type tally struct{ allowed, denied int }

// compare asks HNS and the oracle about every probe. It returns the first
// difference.
func (h *host) compare(c oracle.Cluster) (t tally, difference string) {
	h.t.Helper()
	all := h.probes(c)
	for i, got := range h.Sim().Ask(all...) {
		p := all[i]
		require.NotEqual(h.t, hnsfault.Unanswered, got, "%+v", p)
		want, egress := oracle.Verdict(c, oracle.Endpoint{IP: p.Src}, oracle.Endpoint{IP: p.Dst}, protocolNames[p.Protocol], p.DstPort)
		if p.Direction == hns.Out {
			want = egress
		}
		if got == hnsfault.Allowed {
			t.allowed++
		} else {
			t.denied++
		}
		if want.Allowed != (got == hnsfault.Allowed) {
			now, _ := h.Sim().Trace(p.Endpoint, p.Direction, p.Packet) // it may be another one by now
			return t, fmt.Sprintf("%s %v -> %v %d/%s: %v by HNS, now by %v; the oracle allows it: %t, by %q",
				p.Direction, p.Src, p.Dst, p.DstPort, protocolNames[p.Protocol], got, now.Matched, want.Allowed, want.Policy)
		}
	}
	return t, ""
}

// waitVerdicts waits until HNS says of every packet what the oracle says about
// the objects of the API server.
func (h *host) waitVerdicts(k *kube, nodeAddrs ...netip.Addr) tally {
	h.t.Helper()
	c := h.known(k, nodeAddrs...)
	var sum tally
	eventually(h.t, settle, func() string {
		var difference string
		sum, difference = h.compare(c)
		return difference
	})
	return sum
}
