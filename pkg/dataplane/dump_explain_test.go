package dataplane_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// explained is a policy two of whose rules make one ACL, and another direction
// that counts its rules for itself.
const explained = `{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress, Egress], ingress: [
  {from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 80}]},
  {from: [{ipBlock: {cidr: 10.9.0.0/16}}]},
  {from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 80}]}],
  egress: [{to: [{podSelector: {}}], ports: [{port: http}]}]}`

// TestDumpExplains: what an explanation needs is in the dump, and only where
// there is something to explain.
func TestDumpExplains(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "node 10.8.0.1", "endpoint ep 10.0.0.1", "pod x/db 10.0.0.1 app=db",
		"pod x/web 10.0.1.1 app=web port=http:8080 remote", "policy x/p "+explained, "apply")
	d := w.dp.Dump()
	require.Equal(t, w.now, d.Time)
	require.Equal(t, []string{"http:8080/TCP"}, d.Pods[1].Ports)
	require.Len(t, d.Policies[0].Spec.Ingress, 3)
	ep := d.Endpoints[0]
	require.Equal(t, map[string][]int{
		"azure-acl-npm-node": nil, "azure-acl-npm-block-in": nil, "azure-acl-npm-block-out": nil,
		"x.p In podlabel": {0, 2}, "x.p In 10.9.0.0/16": {1}, "x.p Out": {0},
	}, rulesOf(ep))
	require.Len(t, ep.ForeignRules, ep.Foreign, "the CNI's are all rules")
	require.False(t, ep.Tiered)
	require.Zero(t, ep.Since)
	for _, s := range d.Sets {
		require.Empty(t, s.Missing, s.Name)
		require.Empty(t, s.Surplus, s.Name)
		require.False(t, s.Unknown, s.Name)
		require.Zero(t, s.Since, s.Name)
	}

	// A set that HNS refuses to write, and rules of which nobody knows.
	w.do("wait 1m", "pod x/w2 10.0.1.2 app=web remote", "delete pod x/web", "fault SetPolicy/Update * refuse", "! apply")
	d = w.dp.Dump()
	web := setOf(t, d, "podlabel-app:web")
	require.Equal(t, []string{"10.0.1.2"}, web.Missing)
	require.Equal(t, []string{"10.0.1.1"}, web.Surplus)
	require.Equal(t, w.now, web.Since)
	w.settle()
	w.do("foreign ep TierAcl {}", "observe", "apply", "wait 1m",
		"delete policy x/p", "before ACL/Update ep fault Endpoint/Get ep refuse", "! apply")
	ep = w.dp.Dump().Endpoints[0]
	require.Len(t, ep.Maybe, 2, "the old list or the new one")
	require.Len(t, ep.Maybe[0], 6)
	require.Empty(t, ep.Maybe[1])
	require.Equal(t, w.now, ep.Since)
	require.True(t, ep.Tiered)
}

// rulesOf names the wanted ACLs and says which rules they came from.
func rulesOf(ep state.Endpoint) map[string][]int {
	out := map[string][]int{}
	for i, a := range ep.Wanted {
		name := a.ID
		if key, ok := state.PolicyOfACL(a.ID); ok {
			name = key.Namespace + "." + key.Name + " " + string(a.Direction)
			switch {
			case a.Direction == hns.Out:
			case a.RemoteAddresses != "":
				name += " " + a.RemoteAddresses
			default:
				name += " podlabel"
			}
		}
		out[name] = ep.Sources[i].Rules
	}
	return out
}

func setOf(t *testing.T, d state.Dump, name string) state.Set {
	t.Helper()
	for _, s := range d.Sets {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no set %s", name)
	return state.Set{}
}
