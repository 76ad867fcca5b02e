// Package gen draws small clusters, and changes of them, for tests against the oracle. It takes names,
// labels, addresses and ports from small pools, so that collisions are common. All randomness comes from
// rapid, so failures shrink.
package gen

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/test/oracle"
)

// Node is the node whose pods are local; the others are n2 and n3.
const Node = "n1"

// Now is a time at which pods run. Start times in the future are long after it.
var Now = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// Gen draws the objects of one cluster and its changes. It numbers pods, so that each has another UID.
type Gen struct {
	t          *rapid.T
	serial     int
	namespaces []string // the namespaces of the cluster's objects
	tiers      bool
}

// New returns a generator for one run of a property. If tiers is set, its clusters have nodes and
// ClusterNetworkPolicies.
func New(t *rapid.T, tiers bool) *Gen {
	g := &Gen{t: t, tiers: tiers}
	g.namespaces = namespaces[:g.between(1, len(namespaces), "namespaces")]
	return g
}

// The pools. The names of namespaces and policies collide when joined (a-b + c, a + b-c). No pod has one of
// the outer addresses.
var (
	namespaces  = []string{"a", "a-b", "b", "c"}
	policyNames = []string{"c", "b-c", "p.q", "d", "e", "f"}
	nodes       = []string{Node, Node, Node, Node, Node, Node, "n2", "n3"}
	podAddrs    = addrs("10.0.0.1", 12)
	nodeAddrs   = addrs("192.168.0.1", 4)
	outerAddrs  = append(addrs("10.0.0.30", 2), addrs("172.16.5.4", 2)...)
	protocols   = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	portNames   = []string{"http", "dns", "web"}
	portNumbers = []int32{80, 53, 8080, 81, 1, 65535}
	// rangeLengths are the differences between the last and the first port of a range.
	rangeLengths = []int32{0, 1, 60}
)

func addrs(first string, n int) []netip.Addr {
	all := []netip.Addr{netip.MustParseAddr(first)}
	for len(all) < n {
		all = append(all, all[len(all)-1].Next())
	}
	return all
}

// Cluster draws a cluster: up to four namespaces, some of which have no object, up to nine
// pods and seven policies; with tiers nodes and up to five ClusterNetworkPolicies. Every second
// cluster with tiers has an object for each of its namespaces, as is usual in a real cluster.
func (g *Gen) Cluster() oracle.Cluster {
	c := oracle.Cluster{Node: Node, Now: Now}
	all := g.tiers && g.Flip("every namespace has an object")
	for _, name := range g.namespaces {
		if all || !g.oneIn(4, "namespace without object") {
			add(&c.Namespaces, g.namespace(name))
		}
	}
	g.Some(9, "pod", func() { g.createPod(&c) })
	g.Some(7, "policy", func() { add(&c.Policies, g.policy()) })
	c.NodeAddrs = g.nodeAddrs()
	if g.tiers {
		c.Nodes = []corev1.Node{g.node(Node), g.node("n2"), g.node("n3")}
		g.Some(5, "cluster policy", func() { add(&c.ClusterPolicies, g.clusterPolicy()) })
	}
	return c
}

// nodeAddrs draws the addresses of the agent's node.
func (g *Gen) nodeAddrs() []netip.Addr { return nodeAddrs[:g.between(1, 2, "node addresses")] }

// Ends returns the addresses to test: the addresses of pods and nodes, and some unused ones. It returns
// each address once.
func Ends(c oracle.Cluster) []netip.Addr {
	ends := append([]netip.Addr{outerAddrs[0], outerAddrs[2]}, nodeAddrs[:3]...)
	for _, pod := range slices.Concat(c.Pods, c.Lost) {
		if addr := oracle.Address(&pod); addr.IsValid() && !slices.Contains(ends, addr) {
			ends = append(ends, addr)
		}
	}
	return ends
}

// Probe is a port to test.
type Probe struct {
	Protocol corev1.Protocol
	Port     uint16
}

// Probes draws n ports, which may be equal: ports of rules and containers, the ends of ranges, and ports
// next to these.
func (g *Gen) Probes(n int) (probes []Probe) {
	for range n {
		number := pick(g, portNumbers, "probe port") + pick(g, []int32{0, 0, 0, 0, -1, 1, 2, 60, 61}, "from it")
		probes = append(probes, Probe{pick(g, protocols, "probe protocol"), uint16(max(min(number, 65535), 1))})
	}
	return probes
}

// Some calls draw up to most times, two thirds of that on average. Each call is in one group with the coin
// before it, so that rapid can remove any of them.
func (g *Gen) Some(most int, what string, draw func()) {
	for range most {
		more := rapid.Custom(func(t *rapid.T) bool {
			outer := g.t
			g.t = t
			defer func() { g.t = outer }()
			if g.between(0, 2*most, "more") == 0 {
				return false
			}
			draw()
			return true
		}).Draw(g.t, what)
		if !more {
			return
		}
	}
}

// some draws up to most values. For no values it returns nil or an empty slice; consumers must treat both alike.
func some[T any](g *Gen, most int, what string, draw func() T) []T {
	all := []T{}
	g.Some(most, what, func() { all = append(all, draw()) })
	if len(all) == 0 && g.Flip("nil") {
		return nil
	}
	return all
}

// few draws one to most values.
func few[T any](g *Gen, most int, what string, draw func() T) (all []T) {
	for range g.between(1, most, what) {
		all = append(all, draw())
	}
	return all
}

// between draws a number from first to last, small ones a little more often.
func (g *Gen) between(first, last int, what string) int {
	return rapid.IntRange(first, last).Draw(g.t, what)
}

// oneIn draws true once in n times.
func (g *Gen) oneIn(n int, what string) bool { return g.between(0, n-1, what) == n-1 }

// pick draws one of the values.
func pick[T any](g *Gen, values []T, what string) T {
	return values[g.between(0, len(values)-1, what)]
}

// Flip draws a bool.
func (g *Gen) Flip(what string) bool { return g.oneIn(2, what) }
