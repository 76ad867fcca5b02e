package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// tierWorld is a pod x/w at 10.0.0.1 with the peers y/p at 10.0.1.1 and z/q at 10.0.2.1,
// each in a namespace whose team is its name twice.
func tierWorld(t *testing.T) *world {
	w := newWorld(t)
	w.do("namespace x team=xx", "namespace y team=yy", "namespace z team=zz", "node 10.0.0.100", "endpoint ep 10.0.0.1",
		"pod x/w 10.0.0.1 app=web port=http:80", "pod y/p 10.0.1.1 remote", "pod z/q 10.0.2.1 remote", "apply")
	return w
}

// in is what reaches the pod: for each peer and port whether it does.
func (w *world) in(peers []string, ports ...int) string {
	w.t.Helper()
	var out []string
	for _, peer := range peers {
		for _, port := range ports {
			verdict := "allow"
			if w.trace(strings.Fields(fmt.Sprintf("%s -> 10.0.0.1 TCP/%d ep in allow", peer, port))) != nil {
				verdict = "block"
			}
			out = append(out, verdict)
		}
	}
	return strings.Join(out, " ")
}

const fromBoth = `tier: Admin, priority: 5, subject: {namespaces: {matchLabels: {team: xx}}}`

// TestRefusedTierRules: HNS refuses some rule of a list. The policy that it belongs to is
// quarantined: what it accepts is left out, and what it denies blocks everything; the others are
// there. When HNS takes it again the true list comes.
func TestRefusedTierRules(t *testing.T) {
	list := quarantined("{matchLabels: {team: xx}}",
		`{action: Accept, from: [{namespaces: {matchLabels: {team: zz}}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}`,
		`{action: Deny, from: [{namespaces: {matchLabels: {team: zz}}}], protocols: [{tcp: {destinationPort: {number: 81}}}]}`,
		`{action: Accept, from: [{namespaces: {matchLabels: {team: yy}}}], protocols: [{tcp: {destinationPort: {number: 81}}}]}`,
		`{action: Deny, from: [{namespaces: {matchLabels: {team: yy}}}], protocols: [{tcp: {destinationPort: {number: 82}}}]}`)
	peers, ports := []string{"10.0.2.1", "10.0.1.1"}, []int{80, 81, 82}
	for name, test := range map[string]struct {
		refuse   func(hns.ACL) bool
		want     string
		warnings int
	}{
		"nothing":            {nil, "allow block allow allow allow block", 0},
		"an Accept":          {func(a hns.ACL) bool { return a.Action == hns.Allow && a.LocalPorts == "81" }, "allow block allow allow allow block", 1},
		"the last Deny":      {func(a hns.ACL) bool { return a.LocalPorts == "82" }, "allow block block block allow block", 1},
		"ports of a Deny":    {func(a hns.ACL) bool { return a.Action == hns.Block && a.LocalPorts != "" }, "allow block block block block block", 1},
		"all that has peers": {func(a hns.ACL) bool { return a.Action == hns.Block && a.LocalAddresses != "" }, "allow block block block block block", 1},
		"every condition":    {func(a hns.ACL) bool { return a.LocalAddresses != "" }, "block block block block block block", 2},
		"the node":           {func(a hns.ACL) bool { return a.Priority == hns.PriorityNode }, "allow block allow allow allow block", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := tierWorld(t)
			if test.refuse != nil {
				w.sim.RejectACL(test.refuse)
			}
			w.do(list...)
			_ = w.apply()
			report := w.report
			require.True(t, report.Converged(), "%+v", report)
			require.Equal(t, test.want, w.in(peers, ports...), w.sim.Dump())
			require.Len(t, report.Warnings, test.warnings, "%+v", report.Warnings)
			for _, warning := range report.Warnings {
				require.Equal(t, state.ReasonHNSRejected, warning.Reason)
			}
			require.Less(t, report.Calls["ACL/Update"]+report.Calls["ACL/Add"], 40)

			w.sim.RejectACL(nil)
			w.now = w.now.Add(11 * time.Minute)
			w.do("apply")
			require.Empty(t, w.report.Warnings)
			require.Equal(t, "allow block allow allow allow block", w.in(peers, ports...))
			w.do("apply", "calls")
		})
	}
}

// TestRefusedTiersNeverOpen: after every write on the way no packet passes that neither the
// rules before nor the new ones let through.
func TestRefusedTiersNeverOpen(t *testing.T) {
	before := `cluster c {` + fromBoth + `, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: yy}}}]}, {action: Accept, from: [{namespaces: {}}]}]}`
	after := `cluster c {` + fromBoth + `, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: zz}}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}, {action: Accept, from: [{namespaces: {matchLabels: {team: zz}}}]}, {action: Deny, from: [{namespaces: {matchLabels: {team: yy}}}]}, {action: Pass, from: [{namespaces: {}}]}]}`
	for i, refuse := range []func(hns.ACL) bool{
		func(a hns.ACL) bool { return a.LocalPorts != "" },
		func(a hns.ACL) bool { return a.Action == hns.Block && a.LocalAddresses != "" },
		func(a hns.ACL) bool { return a.Action == hns.Allow && a.LocalAddresses != "" },
		func(a hns.ACL) bool { return a.Priority == 1002 },
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			w := tierWorld(t)
			w.do(before, "apply")
			all := probes(w.sim, []string{"10.0.1.1", "10.0.2.1", "10.0.0.100"}, 80, 81)
			states := []map[probe]bool{verdicts(t, w.sim, all)}
			w.do(after, "apply")
			states = append(states, verdicts(t, w.sim, all))
			w.do(before, "apply")

			w.sim.RejectACL(refuse)
			w.sim.Watch(all...)
			w.do(after)
			_ = w.apply()
			require.True(t, w.report.Converged(), "%+v", w.report)
			opened := slices.DeleteFunc(w.sim.Transitions(), func(x hnsfault.Transition) bool { return x.To == hnsfault.Denied })
			require.Empty(t, strays(opened, states))
			for p, allowed := range verdicts(t, w.sim, all) {
				require.True(t, !allowed || states[1][p], "%+v", p)
			}
		})
	}
}
