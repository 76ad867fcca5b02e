package dataplane_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// neverAllowed fails the test when the packet passes after any write from now on.
func (s *script) neverAllowed(src, dst, endpoint string) {
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
	w := newWorld(t, policyText("p", `{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {app: web}}}]}]}`))
	w.do("namespace x", "namespace y team=a", "namespace z", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1",
		"pod y/db 10.0.1.1 app=db remote", "policy p", "apply")
	w.neverAllowed("10.0.1.1", "10.0.0.1", "ep")
	w.do("pod z/web 10.0.1.1 app=web remote", "namespace y", "apply")
}

// TestNoWindow_UnknownSet: while the outcome of one set's write is unknown, an
// event that changes this set and another one is not written by half.
func TestNoWindow_UnknownSet(t *testing.T) {
	w := newWorld(t, policyText("p", `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: v1, b: v1}}}]}]}`))
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "policy p",
		"pod x/q 10.0.1.1 a=v1 b=v2 remote", "apply")
	w.neverAllowed("10.0.1.1", "10.0.0.1", "ep")
	w.do("pod x/r 10.0.1.2 a=v1 remote", "fault SetPolicy/Update * refuse", "! apply",
		"pod x/q 10.0.1.1 a=v2 b=v1 remote", "apply", "calls")
	w.settle()
}

// TestSetInUseByOthers: a rule on an endpoint that was never listed names one of
// the sets that are to go. The others go, and nothing is tried again and again.
func TestSetInUseByOthers(t *testing.T) {
	w := newWorld(t, "")
	for _, name := range []string{"podlabel-a", "podlabel-b", "podlabel-c"} {
		w.do("put-set " + name + " IPSET 10.9.9.9")
	}
	w.do("put-set nslabel-team:a NESTEDIPSET podlabel-b")
	require.NoError(t, w.sim.CreateEndpoint(hnssim.NewEndpoint{
		ID: "away", Addrs: []netip.Addr{mustAddr("10.0.0.7")}, State: hnssim.Detached,
		Policies: []hns.EndpointPolicy{hns.NewACLPolicy(hns.ACL{
			ID: "azure-acl-x.old", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch,
			Priority: hns.PriorityAllow, LocalAddresses: ipsets.NamespaceLabel("team", "a").ID(),
		})},
	}))
	w.do("endpoint ep 10.0.0.1", "namespace x", "pod x/w 10.0.0.1", "! apply", "retry 30s")
	require.True(t, w.report.Converged())
	require.Equal(t, []string{"nslabel-team:a", "podlabel-b"}, setNamesOf(w.sim))
	require.Equal(t, []state.Warning{{Object: "nslabel-team:a", Kind: "Set", Reason: state.ReasonHNSRejected,
		Message: "HNS does not remove the set (0x803b002c HCN_E_ENTITY_HAS_REFERENCES): nothing needs it; it is tried again"}}, w.report.Warnings)
	require.NoError(t, w.sim.DeleteEndpoint("away"))
	w.do("advance 29s", "apply", "calls", "advance 1s", "apply")
	require.Empty(t, w.report.Warnings)
	require.Empty(t, w.sim.Sets())
}

func setNamesOf(sim *hnsfault.Sim) []string {
	var out []string
	for _, s := range sim.Sets() {
		out = append(out, s.Name)
	}
	return out
}

// TestRefusedContentComesBack: a set gets content that HNS refused before, after
// it had other content in between. Its rules go again, and the user is told.
func TestRefusedContentComesBack(t *testing.T) {
	w := newWorld(t, bPolicies)
	w.sim.RejectSet(func(s hns.SetPolicy) bool {
		return s.Name == "podlabel-app:api" && slices.Contains(s.Values, "10.0.1.2")
	})
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "pod x/a 10.0.1.1 app=api remote", "policy good", "apply")
	for range 2 {
		w.do("pod x/bad 10.0.1.2 app=api remote")
		_ = w.apply()
		w.settle()
		w.do("trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block")
		require.Equal(t, []string{"x/good"}, objects(w.report))
		ep := w.dp.Dump().Endpoints[0]
		require.Empty(t, cmp.Diff(ep.Wanted, ep.Applied))

		w.do("delete pod x/bad", "apply", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in allow")
		require.Empty(t, w.report.Warnings)
	}
}

// TestRefusedOnTheWay: one set of an Update is refused, so the others first lose
// members; HNS refuses such a value of another set. That is not what is wanted
// of it, so it is not left out.
func TestRefusedOnTheWay(t *testing.T) {
	w := newWorld(t, policyText("a", `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: v1}}}]}]}`)+
		policyText("b", `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {b: v1}}}]}]}`))
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "policy a", "policy b",
		"pod x/p 10.0.1.1 a=v1 remote", "pod x/q 10.0.1.2 a=v1 remote", "apply")
	w.sim.RejectSet(func(s hns.SetPolicy) bool {
		return s.Name == "podlabel-a:v1" && len(s.Values) == 1 || s.Name == "podlabel-b:v1" && len(s.Values) > 0
	})
	w.do("pod x/p 10.0.1.1 b=v1 remote", "pod x/r 10.0.1.3 a=v1 remote", "! apply")
	w.settle()
	require.Equal(t, []string{"x/b"}, objects(w.report))
	w.do("trace 10.0.1.3 -> 10.0.0.1 TCP/80 ep in allow", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block")
}

// TestObservationsOutOfOrder: an older one that comes in after a newer one would
// undo what was seen since; it does nothing.
func TestObservationsOutOfOrder(t *testing.T) {
	w := newWorld(t, bPolicies)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "policy good", "apply")
	old, err := w.dp.Observe(t.Context(), dataplane.Everything())
	require.NoError(t, err)
	w.do("pod x/a 10.0.1.1 app=api remote", "apply", "calls SetPolicy/Update=1", "observe", "apply", "calls")
	w.tx.SetObservation(old)
	w.do("apply", "calls")
}

// TestNodeAddressOfIPv6: HNS takes no IPv6 in a rule; the node's IPv4
// addresses count all the same.
func TestNodeAddressOfIPv6(t *testing.T) {
	w := newWorld(t, bPolicies)
	w.do("node fd00::4 10.1.0.4", "namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "policy good", "apply",
		"trace 10.1.0.4 -> 10.0.0.1 TCP/81 ep in allow")
	require.Empty(t, cmp.Diff([]string{"10.1.0.4"}, w.dp.Dump().NodeAddrs))
	var tx dataplane.Transaction
	tx.SetNodeAddrs([]netip.Addr{mustAddr("10.1.0.4"), mustAddr("fd00::4")})
	require.Equal(t, 1, tx.Len())
}
