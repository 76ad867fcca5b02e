//go:build linux

package agent

import (
	"fmt"
	"net/netip"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/test/oracle"
)

// probe is a port that the suite asks about.
type probe struct {
	protocol corev1.Protocol
	port     uint16
}

// probes are inside and outside of everything that a drawer draws.
var probes = []probe{
	{corev1.ProtocolTCP, 80}, {corev1.ProtocolTCP, 8080}, {corev1.ProtocolTCP, 8090}, {corev1.ProtocolTCP, 8091},
	{corev1.ProtocolTCP, 443}, {corev1.ProtocolUDP, 53}, {corev1.ProtocolUDP, 5353},
}

var protocolNumbers = map[corev1.Protocol]uint8{corev1.ProtocolTCP: 6, corev1.ProtocolUDP: 17}

// tally counts verdicts.
type tally struct{ allowed, denied int }

// compare asks HNS and the oracle about every packet between an endpoint and
// any pod, the node, and somebody outside, in both directions. It returns the
// first difference.
func (h *host) compare(c oracle.Cluster) (t tally, difference string) {
	h.t.Helper()
	others := append([]netip.Addr{outside}, c.NodeAddrs...)
	for i := range c.Pods {
		others = append(others, oracle.Address(&c.Pods[i]))
	}
	for own, id := range h.endpoints {
		for _, other := range others {
			if other == own {
				continue
			}
			for _, p := range probes {
				for _, direction := range []hns.Direction{hns.In, hns.Out} {
					if difference := h.compareOne(c, id, own, other, p, direction, &t); difference != "" {
						return t, difference
					}
				}
			}
		}
	}
	return t, ""
}

// outside is an address that no pod and no node has.
var outside = netip.MustParseAddr("172.16.5.4")

func (h *host) compareOne(c oracle.Cluster, id string, own, other netip.Addr, p probe, direction hns.Direction, t *tally) string {
	h.t.Helper()
	src, dst := other, own
	if direction == hns.Out {
		src, dst = own, other
	}
	got, err := h.Sim().Trace(id, direction, hnssim.Packet{Src: src, Dst: dst, Protocol: protocolNumbers[p.protocol], DstPort: p.port})
	require.NoError(h.t, err)
	want, egress := oracle.Verdict(c, oracle.Endpoint{IP: src}, oracle.Endpoint{IP: dst}, p.protocol, p.port)
	if direction == hns.Out {
		want = egress
	}
	if got.Allowed {
		t.allowed++
	} else {
		t.denied++
	}
	if got.Allowed != want.Allowed {
		return fmt.Sprintf("%s %v -> %v %d/%s: HNS allows it: %t, by %v; the oracle: %t, by %q",
			direction, src, dst, p.port, p.protocol, got.Allowed, got.Matched, want.Allowed, want.Policy)
	}
	return ""
}

// waitVerdicts waits until HNS says of every packet what the oracle says about
// the objects of the API server.
func (h *host) waitVerdicts(k *kube, nodeAddrs ...netip.Addr) tally {
	h.t.Helper()
	c, err := k.cluster(h.t.Context())
	require.NoError(h.t, err)
	c.NodeAddrs = nodeAddrs
	var sum tally
	eventually(h.t, settle, func() string {
		var difference string
		sum, difference = h.compare(c)
		return difference
	})
	return sum
}
