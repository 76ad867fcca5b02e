package oracletest

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/tool/match"
)

// TestIPv6ChangesNothing: without ClusterNetworkPolicies, HNS has the same sets and rules for a
// cluster with IPv6 addresses as for the same cluster without them. An endpoint with both belongs
// to the pod of its IPv4 address, in whatever order the addresses are.
func TestIPv6ChangesNothing(t *testing.T) {
	two, alone := 0, 0
	check(t, func(t *rapid.T) {
		g := gen.New(t, false)
		w, ipv4, c := withAndWithoutIPv6(t, g)
		got := w.state()
		for _, endpoint := range w.sim.Endpoints() {
			if len(endpoint.Addrs) > 1 {
				two++
			}
			if !ipv4Of(endpoint.Addrs).IsValid() {
				alone++
				require.Empty(t, got.ACLs[endpoint.ID])
				delete(got.ACLs, endpoint.ID)
			}
		}
		if d := cmp.Diff(ipv4.state(), got); d != "" {
			w.fail(c, "IPv6 makes a difference (- without it, + with it):\n%s", d)
		}
	})
	ever(t, two, "no endpoint ever had two addresses")
	ever(t, alone, "no endpoint ever had an address of IPv6 alone")
}

// withAndWithoutIPv6 returns a world with a cluster, and one with the same cluster without IPv6
// addresses.
func withAndWithoutIPv6(t *rapid.T, g *gen.Gen) (w, ipv4 *world, c oracle.Cluster) {
	w = newWorld(t, drawSetup(t))
	c = g.Cluster()
	w.start(c, false)
	ipv4 = newWorld(t, w.setup)
	ipv4.start(withoutIPv6(c), false)
	return w, ipv4, c
}

// TestIPv6OfTieredPods: with ClusterNetworkPolicies, IPv6 addresses add at most one rule per
// direction to an endpoint, which blocks all IPv6. It is there in each direction in which, by the
// oracle, a ClusterNetworkPolicy denies an IPv4 connection.
func TestIPv6OfTieredPods(t *testing.T) {
	denied, blocks := 0, 0
	check(t, func(t *rapid.T) {
		g := gen.New(t, true)
		w, ipv4, c := withAndWithoutIPv6(t, g)
		probes := g.Probes(3)
		got := w.state()
		for _, endpoint := range w.sim.Endpoints() {
			own := ipv4Of(endpoint.Addrs)
			if !own.IsValid() {
				delete(got.ACLs, endpoint.ID)
				continue
			}
			blocked := map[hns.DirectionType]int{}
			got.ACLs[endpoint.ID] = slices.DeleteFunc(got.ACLs[endpoint.ID], func(a hns.ACL) bool {
				is := a.RemoteAddresses == hns.EveryIPv6
				if is {
					require.Equal(t, hns.Block, a.Action)
					blocked[a.Direction]++
					blocks++
				}
				return is
			})
			denies := func(a hns.ACL) bool { return a.Direction == hns.In && a.Action == hns.Block }
			if blocked[hns.In] > 0 && !slices.ContainsFunc(got.ACLs[endpoint.ID], denies) { // the node's rule comes with the first block
				got.ACLs[endpoint.ID] = slices.DeleteFunc(got.ACLs[endpoint.ID], func(a hns.ACL) bool { return a.Priority == hns.PriorityNode })
			}
			at := slices.IndexFunc(endpoint.Addrs, func(a netip.Addr) bool { return a.Is6() && !a.Is4In6() })
			if at < 0 {
				continue
			}
			for _, other := range gen.Ends(c) {
				for _, probe := range probes {
					in, _ := oracle.AtSwitch(c, other, own, probe.Protocol, probe.Port)
					_, out := oracle.AtSwitch(c, own, other, probe.Protocol, probe.Port)
					for dir, side := range map[hns.DirectionType]oracle.Side{hns.In: in, hns.Out: out} {
						if side.Allowed || side.Tier == "" {
							continue
						}
						packet := match.Packet{Src: netip.MustParseAddr("fd00::99"), Dst: endpoint.Addrs[at], Protocol: protocolNumbers[probe.Protocol], DstPort: probe.Port}
						if dir == hns.Out {
							packet.Src, packet.Dst = packet.Dst, packet.Src
						}
						denied++
						verdict, err := w.sim.Trace(endpoint.ID, dir, packet)
						require.NoError(t, err)
						if verdict.Allowed || blocked[dir] != 1 {
							w.fail(c, "%s at %s: a policy denies IPv4 (%+v), and %d rules block IPv6", dir, endpoint.ID, side, blocked[dir])
						}
					}
				}
			}
		}
		if d := cmp.Diff(ipv4.state(), got); d != "" {
			w.fail(c, "IPv6 makes a difference beside its block (- without it, + with it):\n%s", d)
		}
	})
	ever(t, denied, "nothing was ever denied at an endpoint with an address of IPv6")
	ever(t, blocks, "IPv6 was never blocked")
}

// withoutIPv6 returns the cluster with pods that have IPv4 addresses only.
func withoutIPv6(c oracle.Cluster) oracle.Cluster {
	pods := make([]corev1.Pod, len(c.Pods))
	for i := range c.Pods {
		pods[i] = *c.Pods[i].DeepCopy()
		pods[i].Status.PodIPs = nil
		pods[i].Status.PodIP = ""
		if addr := oracle.Address(&c.Pods[i]); addr.IsValid() {
			pods[i].Status.PodIP = addr.String()
		}
	}
	c.Pods = pods
	return c
}
