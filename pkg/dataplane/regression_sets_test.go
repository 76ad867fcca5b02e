package dataplane_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// neverAllowed fails the test when the packet passes after any write from now on.
func (s *world) neverAllowed(src, dst, endpoint string) {
	s.t.Helper()
	now := s.sim.Watch(probe{Endpoint: endpoint, Direction: hns.In, Packet: packet(src, dst, 80)})
	require.Equal(s.t, []hnsfault.Outcome{hnsfault.Denied}, now)
	s.t.Cleanup(func() {
		require.Positive(s.t, s.sim.Writes())
		require.Empty(s.t, s.sim.Transitions(), "%s", s.sim.Dump())
	})
}

// TestNoWindow_LeafThatIsStillContained: a namespace leaves a selector in the
// transaction in which one of its addresses goes to a pod elsewhere. Until the
// nested set is written its old members count, so they must be right.
func TestNoWindow_LeafThatIsStillContained(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "namespace y team=a", "namespace z", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1",
		"pod y/db 10.0.1.1 app=db remote", `policy x/p {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {app: web}}}]}]}`, "apply")
	w.neverAllowed("10.0.1.1", "10.0.0.1", "ep")
	w.do("pod z/web 10.0.1.1 app=web remote", "namespace y", "apply")
}

// TestNoWindow_UnknownSet: while the outcome of one set's write is unknown, an
// event that changes this set and another one is not written by half.
func TestNoWindow_UnknownSet(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", `policy x/p {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: v1, b: v1}}}]}]}`,
		"pod x/q 10.0.1.1 a=v1 b=v2 remote", "apply")
	w.neverAllowed("10.0.1.1", "10.0.0.1", "ep")
	w.do("pod x/r 10.0.1.2 a=v1 remote", "fault SetPolicy/Update * refuse", "! apply",
		"pod x/q 10.0.1.1 a=v2 b=v1 remote", "apply", "calls")
	w.settle()
}

// TestNodeAddressOfIPv6: HNS takes no IPv6 in a rule; the node's IPv4
// addresses count all the same.
func TestNodeAddressOfIPv6(t *testing.T) {
	w := newWorld(t)
	w.do("node fd00::4 10.1.0.4", "namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", bGood, "apply",
		"trace 10.1.0.4 -> 10.0.0.1 TCP/81 ep in allow")
	require.Empty(t, cmp.Diff([]string{"10.1.0.4"}, w.dp.Dump().NodeAddrs))
	var tx dataplane.Transaction
	tx.SetNodeAddrs([]netip.Addr{mustAddr("10.1.0.4"), mustAddr("fd00::4")})
	require.Equal(t, 1, tx.Len())
}
