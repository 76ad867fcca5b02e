package dataplane_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The moved policies have peers of every kind, in rules that allow and in rules that deny. Namespace x
// has a NetworkPolicy, the pods of team z have the ClusterNetworkPolicies.
const (
	movedP = `policy x/p {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{from: [
  {podSelector: {}, namespaceSelector: {matchLabels: {team: a}}},
  {podSelector: {matchLabels: {app: a}}, namespaceSelector: {}},
  {podSelector: {matchExpressions: [{key: app, operator: Exists}]}, namespaceSelector: {}},
  {podSelector: {matchExpressions: [{key: app, operator: In, values: [a, b]}]}, namespaceSelector: {}},
  {podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [b]}]}, namespaceSelector: {}}]}],
  egress: [{to: [{namespaceSelector: {}}], ports: [{port: http}]}, {to: [{ipBlock: {cidr: 10.0.1.0/24}}], ports: [{port: http}]}]}`
	movedAdmin = `cluster admin {tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {team: z}}}, ingress: [
  {action: Deny, from: [{namespaces: {matchLabels: {team: a}}}]},
  {action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: a}}}}]},
  {action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [b]}]}}}]}], egress: [
  {action: Deny, to: [{nodes: {matchLabels: {role: db}}}]}, {action: Accept, to: [{nodes: {matchLabels: {role: web}}}]},
  {action: Deny, to: [{namespaces: {matchLabels: {team: a}}}], protocols: [{destinationNamedPort: http}]},
  {action: Pass, to: [{networks: [10.0.1.0/24]}]}, {action: Deny, to: [{networks: [10.0.0.0/8]}]}]}`
	movedBase = `cluster base {tier: Baseline, priority: 1, subject: {namespaces: {matchLabels: {team: z}}}, egress: [{action: Accept, to: [{namespaces: {matchLabels: {team: b}}}]}, {action: Deny, to: [{namespaces: {matchLabels: {team: a}}}]}]}`
)

// TestMovedAddressLeavesNoSet: the address of an object changes while its name and UID stay the
// same, as when the sandbox of a pod is recreated. Every set that had the old address then has the
// new one instead, whatever kind of set it is.
func TestMovedAddressLeavesNoSet(t *testing.T) {
	const before, after, outside = "10.0.1.7", "10.0.1.9", "10.0.2.7"
	for name, test := range map[string]struct {
		put  string   // lines, with the address in place of ADDR
		sets []string // that have the address
	}{
		"pod": {
			"pod a/q ADDR app=a port=http:80 remote",
			[]string{
				"deny-inblocks-10.0.1.0/24", "deny-namedport:http:TCP:80", "deny-ns-a", "deny-podlabel-app:a", "deny-podselector-/app!=b", "inblocks-10.0.1.0/24",
				"namedport:http:TCP:80", "namedport:http:TCP:80@10.0.1.0/24", "ns-a", "podlabel-app", "podlabel-app:a", "podselector-/app!=b",
			},
		},
		"pod over its budget": {
			"over-budget pod a/q ADDR remote",
			[]string{"deny-doubtaddresses-all", "deny-inblocks-10.0.1.0/24"},
		},
		"two pods that claim it": {
			"pod a/q ADDR app=a remote; pod b/q ADDR app=a remote",
			[]string{"deny-doubtaddresses-all", "deny-inblocks-10.0.1.0/24"},
		},
		"node that is denied": {
			"peer n ADDR role=db",
			[]string{"deny-inblocks-10.0.1.0/24", "deny-nodes-role=db", "inblocks-10.0.1.0/24"},
		},
		"node that is accepted": {
			"peer n ADDR role=web",
			[]string{"deny-inblocks-10.0.1.0/24", "inblocks-10.0.1.0/24", "nodes-role=web"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			put := func(addr string) { w.do(strings.Split(strings.ReplaceAll(test.put, "ADDR", addr), "; ")...) }
			with := func(addr string) (out []string) {
				for _, s := range w.sim.Sets() {
					if slices.Contains(strings.Split(strings.Join(s.Values, ","), ","), addr) {
						out = append(out, s.Name)
					}
				}
				slices.Sort(out)
				return out
			}
			w.do("namespace x", "namespace a team=a", "namespace b team=b", "namespace z team=z", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "endpoint tiered 10.0.0.2", "pod z/w 10.0.0.2",
				"pod a/other 10.0.1.8 app=a port=http:80 remote", movedP, movedAdmin, movedBase)
			put(before)
			w.do("apply")
			require.Equal(t, test.sets, with(before))
			require.Empty(t, with(after))
			put(after)
			w.do("apply")
			require.Empty(t, with(before), "these still have the old address")
			require.Equal(t, test.sets, with(after))
			put(outside)
			w.do("apply")
			require.Empty(t, with(after), "these still have the old address")
			require.Equal(t, slices.DeleteFunc(slices.Clone(test.sets), func(set string) bool { return strings.Contains(set, "10.0.1.0/24") }), with(outside))
		})
	}
}
