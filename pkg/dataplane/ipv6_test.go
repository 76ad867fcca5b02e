package dataplane_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// dualWorld is tierWorld with addresses of both families: ep is also fd00::1.
func dualWorld(t *testing.T) *world {
	w := newWorld(t)
	w.do("namespace x team=xx", "namespace y team=yy", "node 10.0.0.100", "endpoint ep 10.0.0.1,fd00::1",
		"pod x/w 10.0.0.1 app=web", "pod y/p 10.0.1.1 remote", "apply")
	return w
}

// six returns whether IPv6 packets reach the pod, and whether IPv6 packets of the pod pass.
func (w *world) six() string {
	w.t.Helper()
	var out []string
	for _, packet := range []string{"fd00::9 -> fd00::1 TCP/80 ep in allow", "fd00::1 -> fd00::9 TCP/80 ep out allow"} {
		verdict := "allow"
		if w.trace(strings.Fields(packet)) != nil {
			verdict = "block"
		}
		out = append(out, verdict)
	}
	return strings.Join(out, " ")
}

// TestIPv6IsDenied: if a ClusterNetworkPolicy has a rule in a direction, and that rule or a later
// tier may deny something, one rule before all allow rules blocks all IPv6 of the direction. It
// does not affect IPv4, endpoints without IPv6 addresses, or endpoints that no
// ClusterNetworkPolicy selects.
func TestIPv6IsDenied(t *testing.T) {
	const yy = `[{namespaces: {matchLabels: {team: yy}}}]`
	admin := func(rules string) string { return `cluster c {` + fromBoth + `, ` + rules + `}` }
	const isolated = `policy x/p {podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}`
	const open = `policy x/p {podSelector: {}, ingress: [{ports: [{port: 80}]}]}`
	for name, test := range map[string]struct {
		cluster, np string
		six, four   string // of IPv4: from y/p to ports 80 and 81
		rules       int    // that block IPv6
	}{
		"nothing":                  {"", "", "allow allow", "allow allow", 0},
		"Deny in":                  {admin(`ingress: [{action: Deny, from: ` + yy + `, protocols: [{tcp: {destinationPort: {number: 80}}}]}]`), "", "block allow", "block allow", 1},
		"Deny out":                 {admin(`egress: [{action: Deny, to: ` + yy + `}]`), "", "allow block", "allow allow", 1},
		"Deny of all IPv6":         {admin(`egress: [{action: Deny, to: [{networks: ["::/0"]}]}]`), "", "allow block", "allow allow", 1},
		"Deny of some IPv6":        {admin(`egress: [{action: Deny, to: [{networks: ["fd00::/8", "10.9.0.0/16"]}]}]`), "", "allow block", "allow allow", 1},
		"Accept of all IPv6":       {admin(`egress: [{action: Accept, to: [{networks: ["::/0"]}]}]`), "", "allow allow", "allow allow", 0},
		"Accept before Deny":       {admin(`egress: [{action: Accept, to: [{networks: ["0.0.0.0/0", "::/0"]}]}, {action: Deny, to: ` + yy + `}]`), "", "allow block", "allow allow", 1},
		"Accept before a Baseline": {admin(`ingress: [{action: Accept, from: ` + yy + `}]`), "", "allow allow", "allow allow", 0},
		"Baseline Deny":            {`cluster c {tier: Baseline, priority: 5, subject: {namespaces: {matchLabels: {team: xx}}}, ingress: [{action: Deny, from: ` + yy + `}]}`, "", "block allow", "block block", 1},
		"Baseline Deny, and a NetworkPolicy without peers": {`cluster c {tier: Baseline, priority: 5, subject: {namespaces: {matchLabels: {team: xx}}}, ingress: [{action: Deny, from: ` + yy + `}]}`, open, "block allow", "allow block", 1},
		"Pass to nothing":             {admin(`ingress: [{action: Pass, from: ` + yy + `}]`), "", "allow allow", "allow allow", 0},
		"Pass to a NetworkPolicy":     {admin(`ingress: [{action: Pass, from: ` + yy + `}]`), isolated, "block allow", "allow allow", 1},
		"Accept, and a NetworkPolicy": {admin(`ingress: [{action: Accept, from: ` + yy + `}]`), open, "block allow", "allow allow", 1},
		"the other direction":         {admin(`egress: [{action: Deny, to: ` + yy + `}]`), isolated, "block block", "allow allow", 1},
		"a NetworkPolicy":             {"", isolated, "block allow", "allow allow", 0},
		// A rule without peers allows its ports from IPv6 addresses as well; the rest is blocked.
		"a NetworkPolicy without peers": {"", open, "allow allow", "allow block", 0},
		"unreadable":                    {admin(`egress: [{action: Deny, to: [{networks: [none]}]}]`), "", "allow block", "allow allow", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, single := dualWorld(t), tierWorld(t)
			for _, s := range []*world{w, single} {
				s.do(test.cluster, test.np, "apply")
				require.Equal(t, test.four, s.in([]string{"10.0.1.1"}, 80, 81), s.sim.Dump())
			}
			require.Equal(t, test.six, w.six(), w.sim.Dump())
			is6 := func(a hns.ACL) bool { return strings.Contains(a.RemoteAddresses, ":") }
			rules := w.rulesOf("ep")
			for _, a := range rules {
				if is6(a) {
					test.rules--
					require.Equal(t, hns.EveryIPv6, a.RemoteAddresses)
					require.Equal(t, hns.PriorityShield, a.Priority)
				}
			}
			require.Zero(t, test.rules, w.sim.Dump())
			require.Equal(t, append([]hns.ACL{}, single.rulesOf("ep")...), slices.DeleteFunc(append([]hns.ACL{}, rules...), is6), "an endpoint without IPv6 has the other rules")

			var warned []state.Warning
			for _, x := range w.report.Warnings {
				if x.Reason == state.ReasonIPv6Blocked {
					require.Equal(t, "x/w", x.Object)
					warned = append(warned, x)
				}
			}
			require.Equal(t, strings.Contains(test.six, "block") || test.np == open, len(warned) == 1, "%+v", warned)
			require.NotContains(t, single.report.Warnings, state.ReasonIPv6Blocked)
			w.do("apply", "calls")
		})
	}
}

// TestIPv6BlockIsRefused: if HNS rejects the rule that blocks all IPv6 of a direction, the
// direction is closed until HNS accepts the rule.
func TestIPv6BlockIsRefused(t *testing.T) {
	w := dualWorld(t)
	w.sim.RejectACL(func(a hns.ACL) bool { return a.RemoteAddresses == hns.EveryIPv6 })
	w.do(`cluster c {` + fromBoth + `, ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}]}`)
	_ = w.apply()
	require.True(t, w.report.Converged(), "%+v", w.report)
	require.True(t, slices.ContainsFunc(w.report.Warnings, func(x state.Warning) bool {
		return x.Kind == "ClusterNetworkPolicy" && x.Object == "c" && x.Reason == state.ReasonHNSRejected
	}), "%+v", w.report.Warnings)
	require.Equal(t, "block allow", w.six())
	require.Equal(t, "block block", w.in([]string{"10.0.1.1"}, 80, 81), w.sim.Dump())
	w.do("trace 10.0.0.100 -> 10.0.0.1 TCP/80 ep in allow") // the node

	w.sim.RejectACL(nil)
	w.now = w.now.Add(11 * time.Minute)
	w.do("apply")
	require.Equal(t, "block allow", w.six())
	require.Equal(t, "block allow", w.in([]string{"10.0.1.1"}, 80, 81), w.sim.Dump())
}
