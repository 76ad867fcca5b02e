package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// quarantined are four ClusterNetworkPolicies, a to d, of one rule each.
func quarantined(subject string, rules ...string) (policies []string) {
	for i, rule := range rules {
		policies = append(policies, fmt.Sprintf("cluster %c {tier: Admin, priority: %d, subject: {namespaces: %s}, ingress: [%s]}", 'a'+i, i, subject, rule))
	}
	return policies
}

// TestRefusedSetsOfTiers: HNS rejects a set when it is made, when it changes, or a member
// of one. What a policy accepts by it is left out, and what one denies by it becomes everything;
// when HNS takes the set both are as they should be, without an event.
func TestRefusedSetsOfTiers(t *testing.T) {
	list := quarantined("{}",
		`{action: Accept, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: api}}}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}`,
		`{action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}}], protocols: [{tcp: {destinationPort: {range: {start: 80, end: 81}}}}]}`,
		`{action: Deny, from: [{namespaces: {matchLabels: {team: yy}}}], protocols: [{tcp: {destinationPort: {number: 82}}}]}`,
		`{action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: api}}}}], protocols: [{tcp: {destinationPort: {range: {start: 80, end: 81}}}}]}`)
	api, db, other := "10.0.2.1", "10.0.2.2", "10.0.2.3"
	peers := []string{api, db, other, "10.0.1.1"}
	closed := "allow block block block block block block block block block block block"
	truth := "allow block allow block block allow allow allow allow allow allow block"
	for name, test := range map[string]struct {
		refuse string
		late   bool // it was taken before, and is refused as it changes
		want   string
	}{
		"made, of an Accept":          {"podlabel-app:api", false, "block block allow block block allow allow allow allow allow allow block"},
		"made, of a Deny":             {"deny-podlabel-app:db", false, closed},
		"made, nested, of a Deny":     {"deny-nslabel-team:yy", false, closed},
		"made, a member, of a Deny":   {"deny-ns-y", false, closed},
		"changed, of a Deny":          {"deny-podlabel-app:db", true, closed},
		"changed, a member of a Deny": {"deny-ns-y", true, closed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.do("namespace x team=xx", "namespace y team=yy", "namespace z team=zz", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1",
				"pod z/api 10.0.2.1 app=api remote", "pod z/other 10.0.2.3 remote", "apply")
			refuse := func() {
				w.sim.RejectSet(func(s hns.SetPolicy) bool { return s.Name == test.refuse })
			}
			if !test.late {
				refuse()
			}
			w.do(list...)
			_ = w.apply()
			if test.late {
				refuse()
			}
			w.do("pod y/p 10.0.1.1 remote", "pod z/db 10.0.2.2 app=db remote")
			_ = w.apply()
			require.Equal(t, test.want, w.in(peers, 80, 81, 82), w.sim.Dump())
			require.True(t, slices.ContainsFunc(w.report.Warnings, func(warning state.Warning) bool {
				return strings.Contains("abc", warning.Object) && warning.Kind == "ClusterNetworkPolicy" && warning.Reason == state.ReasonHNSRejected
			}), "%+v", w.report.Warnings)
			w.sim.RejectSet(nil)
			for range 3 {
				w.now = w.now.Add(11 * time.Minute)
				_ = w.apply()
			}
			require.Equal(t, truth, w.in(peers, 80, 81, 82))
			require.Empty(t, w.report.Warnings)
		})
	}
}

func ruleTexts(acls []hns.ACL) string {
	var out []string
	for _, a := range acls {
		out = append(out, acl.RuleText(a))
	}
	return strings.Join(out, "\n")
}

// TestTierDump: the dump says of each rule what it came from.
func TestTierDump(t *testing.T) {
	w := tierWorld(t)
	w.do(`policy x/p {podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}`, `cluster c {`+fromBoth+`, ingress: [
  {name: first, action: Accept, from: [{namespaces: {matchLabels: {team: zz}}}], protocols: [{tcp: {destinationPort: {number: 80}}}]},
  {name: second, action: Pass, from: [{namespaces: {matchLabels: {team: yy}}}]},
  {name: third, action: Deny, from: [{namespaces: {}}]}]}`, "apply")
	dump := w.dp.Dump()
	require.Len(t, dump.ClusterPolicies, 1)
	require.Equal(t, []string{"x/w"}, dump.ClusterPolicies[0].Selected)
	ep := dump.Endpoints[0]
	require.Len(t, ep.Sources, len(ep.Wanted))
	var got []string
	for i, a := range ep.Wanted {
		text := fmt.Sprintf("%d %s: %s %s %d %s", a.Priority, a.Action, ep.Sources[i].Tier, ep.Sources[i].Policy, ep.Sources[i].Rule, ep.Sources[i].Name)
		for _, by := range ep.Sources[i].Passed {
			text += " passed by " + by.Name
		}
		if !slices.Contains(got, text) {
			got = append(got, text)
		}
	}
	require.Equal(t, []string{
		"201 Allow:   0 ", "1000 Allow: Admin c 0 first", "1000 Allow: NetworkPolicy x/p 0  passed by second", "1001 Block: NetworkPolicy  0  passed by second",
		"1001 Block: Admin c 2 third", "60000 Allow: NetworkPolicy x/p 0 ", "60001 Block: NetworkPolicy  0 ",
	}, got)
}

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

// TestRefusedTierRules: HNS rejects some rule of a list. The policy that it belongs to is
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

// TestStaleEndpointIsClosed: the labels of a namespace change, and HNS rejects the new list of one
// of its endpoints. Members of sets wait if the old rules of this endpoint would allow too much
// with them, so endpoints of other namespaces are late as well. After half a minute the endpoint
// is closed, and no member waits any more.
func TestStaleEndpointIsClosed(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x team=aa", "namespace y team=cc", "endpoint ep 10.0.0.1", "endpoint ep-2 10.0.0.2", "pod x/w 10.0.0.1", "pod y/q 10.0.0.2",
		"pod x/r 10.0.1.1 remote", `cluster c {tier: Admin, priority: 5, subject: {namespaces: {matchLabels: {team: aa}}}, ingress: [
  {action: Accept, from: [{namespaces: {matchLabels: {team: bb}}}]}, {action: Deny, from: [{namespaces: {}}]}]}`, `cluster d {tier: Admin, priority: 6, subject: {namespaces: {matchLabels: {team: bb}}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}`, `cluster e {tier: Admin, priority: 7, subject: {namespaces: {matchLabels: {team: cc}}}, ingress: [
  {action: Accept, from: [{namespaces: {matchLabels: {team: bb}}}]}, {action: Deny, from: [{namespaces: {}}]}]}`, "apply")
	passes := func(endpoint, to string) bool {
		v, err := w.sim.Trace(endpoint, hns.In, packet("10.0.1.1", to, 80))
		require.NoError(t, err)
		return v.Allowed
	}
	var refusing bool
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if when == hnsfault.Before && refusing && c.Op == hns.OpACLUpdate && c.Target == "ep" {
			w.sim.Inject(hnsfault.Fault{Op: c.Op, Target: c.Target, Mode: hnsfault.Refuse})
		}
	})
	refusing = true
	w.do("namespace x team=bb")
	began := w.now
	for !passes("ep-2", "10.0.0.2") {
		_ = w.apply()
		require.False(t, passes("ep", "10.0.0.1"))
		require.Less(t, w.now.Sub(began), 2*time.Minute)
		w.now = w.now.Add(max(w.report.RetryAfter, time.Second))
	}
	require.GreaterOrEqual(t, w.now.Sub(began), 30*time.Second)
	require.Contains(t, ruleTexts(w.rulesOf("ep")), "202 block in azure-acl-npm-block-in")
	refusing = false
	w.do("settle")
	require.False(t, strings.Contains(ruleTexts(w.rulesOf("ep")), "202 block"))
	require.False(t, passes("ep", "10.0.0.1"))
	require.True(t, passes("ep-2", "10.0.0.2"))
}
