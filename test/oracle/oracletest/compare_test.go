package oracletest

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/tool/hnssim"
	"github.com/winnpm/winnpm/tool/match"
)

var protocolNumbers = map[corev1.Protocol]uint8{corev1.ProtocolTCP: 6, corev1.ProtocolUDP: 17, corev1.ProtocolSCTP: 132}

// compare asks the simulator and the oracle about every packet between an endpoint
// of the node and any address, in both directions.
//
// Also about what a pod sends to itself. That is always allowed, because it does
// not leave the pod's network stack, and so never comes to its port of the switch.
// If it did, the rules that are there would say what the policies say to the
// letter: it is this that is compared.
func (w *world) compare(c oracle.Cluster, probes []gen.Probe) {
	for _, endpoint := range w.sim.Endpoints() {
		own := ipv4Of(endpoint.Addrs)
		if !own.IsValid() {
			ours, _ := hns.Endpoint{Policies: endpoint.Policies}.Split()
			require.Empty(w.t, ours, "rules of IPv4 on an endpoint of IPv6 alone")
			continue
		}
		if len(oracle.Residents(c, own)) == 0 {
			continue // its address went on to another node
		}
		for _, other := range gen.Ends(c) {
			if other == own && oracle.LostAt(c, own) != nil {
				continue // what a pod sends to itself does not pass the switch
			}
			for _, probe := range probes {
				w.compareOne(c, endpoint.ID, hns.In, other, own, probe)
				w.compareOne(c, endpoint.ID, hns.Out, own, other, probe)
			}
		}
	}
}

func (w *world) compareOne(c oracle.Cluster, endpoint string, direction hns.DirectionType, src, dst netip.Addr, probe gen.Probe) {
	verdict, err := w.sim.Trace(endpoint, direction, hnssim.Packet{
		Src: src, Dst: dst, Protocol: protocolNumbers[probe.Protocol], DstPort: probe.Port,
	})
	require.NoError(w.t, err)
	want, egress := oracle.AtSwitch(c, src, dst, probe.Protocol, probe.Port)
	if direction == hns.Out {
		want = egress
	}
	if want.Tiered {
		w.compareTiers(c, want, verdict, fmt.Sprintf("%s %v -> %v %d/%s at %s", direction, src, dst, probe.Port, probe.Protocol, endpoint))
		return
	}
	if got, want := tracedSide(verdict), oracleSide(want, direction); got != want {
		w.fail(c, "%s %v -> %v %d/%s at %s: HNS says %s, the oracle %s", direction, src, dst, probe.Port, probe.Protocol, endpoint, got, want)
	}
}

// compareTiers holds a verdict against the oracle's where a ClusterNetworkPolicy is about
// the endpoint. What is in doubt may be denied.
func (w *world) compareTiers(c oracle.Cluster, want oracle.Side, got hnssim.Verdict, packet string) {
	word := func(allowed bool) string {
		if allowed {
			return "allowed"
		}
		return "denied"
	}
	w.tiers[fmt.Sprintf("%s by %s", word(want.Allowed), cmp.Or(string(want.Tier), "another"))]++
	if len(want.Passed) > 0 {
		w.tiers["passed, then "+word(want.Allowed)]++
	}
	if got.Allowed == want.Allowed || want.Doubt && !got.Allowed {
		return
	}
	w.fail(c, "%s: HNS says %s by %+v, the oracle %+v", packet, word(got.Allowed), got.Matched, want)
}

// oracleSide words the oracle's verdict, with the rule that must be the reason.
func oracleSide(s oracle.Side, direction hns.DirectionType) string {
	switch {
	case !s.Isolated:
		return "allowed"
	case !s.Allowed:
		return "denied by azure-acl-npm-block-" + strings.ToLower(string(direction))
	case s.Policy == "":
		return "allowed by azure-acl-npm-node"
	default:
		return "allowed by " + s.Policy
	}
}

// tracedSide words the tracer's verdict in the same way: by the first policy of
// the rules that decided, or the shared rule. The CNI's allow-all is no reason.
func tracedSide(v hnssim.Verdict) string {
	word := "denied"
	if v.Allowed {
		word = "allowed"
	}
	first := ""
	for _, acl := range v.Matched {
		if !acl.Ours() || acl.Priority == hns.PriorityDefault {
			continue
		}
		name := acl.ID
		if key, ok := match.PolicyOfACL(acl.ID); ok {
			name = key.String()
		}
		if first == "" || name < first {
			first = name
		}
	}
	if first == "" {
		return word
	}
	return fmt.Sprintf("%s by %s", word, first)
}
