package dataplane_test

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// adoptedWeb is ingress by pod, by namespace and by block; adoptedDB both directions, with several
// values of a label.
const (
	adoptedWeb = `policy x/web {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}, {namespaceSelector: {matchLabels: {team: blue}}}, {ipBlock: {cidr: 10.9.0.0/16}}], ports: [{port: 80}]}]}`
	adoptedDB  = `policy x/db {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress, Egress], ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [web, api]}]}}]}], egress: [{to: [{namespaceSelector: {}, podSelector: {matchLabels: {app: cli}}}]}]}`
)

// adoptedCluster is the cluster that both agents see.
var adoptedCluster = []string{
	"node 10.1.0.4", "namespace x team=red", "namespace y team=blue", "namespace z",
	"pod x/web 10.0.0.1 app=web", "pod x/db 10.0.0.2 app=db", "pod y/free 10.0.0.3",
	"pod x/api 10.0.1.1 app=api remote", "pod y/cli 10.0.1.2 app=cli remote", "pod z/z 10.0.1.3 app=z remote",
	adoptedWeb, adoptedDB,
}

// adoptedSets are the predecessor's sets for that cluster, those that no rule
// needs included; a nested one lists names.
var adoptedSets = []struct{ name, values, members string }{
	{name: "empty-emptyhashset"},
	{name: "ns-x", values: "10.0.0.1,10.0.0.2,10.0.1.1"},
	{name: "ns-y", values: "10.0.0.3,10.0.1.2"},
	{name: "ns-z", values: "10.0.1.3"},
	{name: "podlabel-app", values: "10.0.0.1,10.0.0.2,10.0.1.1,10.0.1.2,10.0.1.3"},
	{name: "podlabel-app:web", values: "10.0.0.1"},
	{name: "podlabel-app:db", values: "10.0.0.2"},
	{name: "podlabel-app:api", values: "10.0.1.1"},
	{name: "podlabel-app:cli", values: "10.0.1.2"},
	{name: "podlabel-app:z", values: "10.0.1.3"},
	{name: "cidr-web-in-ns-x-0-2IN", values: "10.9.0.0/16"},
	{name: "nslabel-all-namespaces", members: "ns-x ns-y ns-z"},
	{name: "nslabel-team", members: "ns-x ns-y"},
	{name: "nslabel-team:red", members: "ns-x"},
	{name: "nslabel-team:blue", members: "ns-y"},
	{name: "nestedlabel-x/db:app:web:api", members: "podlabel-app:web podlabel-app:api"},
}

// adoptedRules are its rules by endpoint; sets is by name.
func adoptedRules(sets func(names ...string) string) map[string][]hns.ACL {
	rule := func(policy string, priority uint16, action hns.Action, dir hns.Direction) hns.ACL {
		return hns.ACL{ID: "azure-acl-x-" + policy, Priority: priority, Action: action, Direction: dir, RuleType: hns.Switch}
	}
	in := func(policy, ports string, names ...string) hns.ACL {
		a := rule(policy, 222, hns.Allow, hns.In)
		a.LocalAddresses, a.LocalPorts = sets(names...), ports
		if ports != "" {
			a.Protocols = "6"
		}
		return a
	}
	node := func(policy string) hns.ACL {
		a := rule(policy, 201, hns.Allow, hns.In)
		a.RemoteAddresses = "10.1.0.4"
		return a
	}
	out := rule("db", 222, hns.Allow, hns.Out)
	out.RemoteAddresses = sets("nslabel-all-namespaces", "podlabel-app:cli")
	return map[string][]hns.ACL{
		"ep-web": {
			in("web", "80", "ns-x", "podlabel-app:api"), in("web", "80", "nslabel-team:blue"), in("web", "80", "cidr-web-in-ns-x-0-2IN"),
			rule("web", 3000, hns.Block, hns.In), node("web"),
		},
		"ep-db": {
			in("db", "", "ns-x", "nestedlabel-x/db:app:web:api"), out,
			rule("db", 3000, hns.Block, hns.In), rule("db", 3000, hns.Block, hns.Out), node("db"),
		},
		"ep-free": nil,
	}
}

// azureID is the rule by which Azure NPM gives ids.
func azureID(name string) string {
	kind, text, _ := strings.Cut(name, "-")
	switch kind {
	case "ns":
		return ipsets.Namespace(text).ID()
	case "podlabel":
		return ipsets.PodLabelKey(text).ID() // the id follows from the text alone
	case "nslabel":
		key, value, ok := strings.Cut(text, ":")
		if ok {
			return ipsets.NamespaceLabel(key, value).ID()
		}
	}
	switch name {
	case "empty-emptyhashset":
		return ipsets.Empty().ID()
	case "nslabel-all-namespaces":
		return ipsets.AllNamespaces().ID()
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name))
	return fmt.Sprintf("%s%020d", hns.SetIDPrefix, sum.Sum32()) // of a name that is no set's of ours
}

// adoptedNode is a node as the predecessor left it, with a dataplane of ours
// that has done nothing yet.
func adoptedNode(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.do("endpoint ep-web 10.0.0.1", "endpoint ep-db 10.0.0.2", "endpoint ep-free 10.0.0.3")
	for _, s := range adoptedSets {
		p := hns.SetPolicy{ID: azureID(s.name), Name: s.name, Type: hns.IPSet}
		if s.values != "" {
			p.Values = strings.Split(s.values, ",")
		}
		if s.members != "" {
			p.Type, p.Values = hns.NestedIPSet, []string{azureID("empty-emptyhashset")}
			for member := range strings.FieldsSeq(s.members) {
				p.Values = append(p.Values, azureID(member))
			}
		}
		require.NoError(t, w.sim.PutSet(p))
	}
	ids := func(names ...string) string {
		for i, n := range names {
			names[i] = azureID(n)
		}
		return strings.Join(names, ",")
	}
	for ep, acls := range adoptedRules(ids) {
		policies := w.policiesOf(ep)
		for _, a := range acls {
			policies = append(policies, hns.NewACLPolicy(a))
		}
		require.NoError(t, w.sim.SetPolicies(ep, policies))
	}
	w.sim.ResetCalls()
	w.do("restart grace=1m")
	return w
}

// adoptedPeers are the addresses of the remote pods, the node, one of the block
// and one that is nobody's.
var adoptedPeers = []string{"10.0.1.1", "10.0.1.2", "10.0.1.3", "10.1.0.4", "10.9.0.1", "10.8.0.1"}

// TestAdoption replaces the predecessor in place: no verdict changes at any
// moment, each isolated endpoint is written once, no set that is right is
// written, and what is left over goes after the grace period only.
func TestAdoption(t *testing.T) {
	fresh := newWorld(t)
	fresh.do("endpoint ep-web 10.0.0.1", "endpoint ep-db 10.0.0.2", "endpoint ep-free 10.0.0.3")
	fresh.do(append(adoptedCluster, "apply")...)

	w := adoptedNode(t)
	require.Empty(t, w.sim.Calls(), "nothing is touched before the first transaction")
	all := probes(w.sim, adoptedPeers, 80, 443)
	before := verdicts(t, w.sim, all)
	require.Empty(t, gocmp.Diff(verdicts(t, fresh.sim, all), before), "both agents mean the same")
	had := setsByName(w.sim)

	stop := watchI4(t, w.sim, before)
	w.do(append(adoptedCluster, "apply", "calls SetPolicy/Add=1 ACL/Update=2")...)
	require.True(t, w.report.Converged())
	require.Equal(t, "sets +1 ~0 -0, endpoints 2", w.report.Plan)
	requireOnce(t, w.sim.Calls())
	w.do("wait 59s", "apply", "calls", "observe", "apply", "calls", "wait 2s", "apply")
	requireOrphansOnly(t, w.sim.Calls(), had, setsByName(fresh.sim))
	w.do("wait 2m", "apply", "calls")
	require.Positive(t, stop())
	require.Empty(t, gocmp.Diff(fresh.sim.Dump(), w.sim.Dump()), "as if we had always been here")
	for name, set := range setsByName(w.sim) {
		if old, ok := had[name]; ok {
			require.Equal(t, old.ID, set.ID, "%s keeps its id", name)
		}
	}

	w.do("restart grace=1m")
	w.do(append(adoptedCluster, "apply", "calls", "observe", "apply", "calls")...)
	w.do("pod x/api2 10.0.1.9 app=api remote", "apply", "calls SetPolicy/Update=1",
		"trace 10.0.1.9 -> 10.0.0.1 TCP/80 ep-web in allow")
	w.do("delete policy x/web", "delete policy x/db", "apply", "wait 2m")
	w.settle()
	require.Empty(t, w.sim.Sets(), "sets under any id go when nothing needs them")
}

// TestAdoptionOfWhatIsWrong: the predecessor missed events. A pod that it lets
// in is shut out, one that it shuts out is let in, and nothing else changes.
func TestAdoptionOfWhatIsWrong(t *testing.T) {
	w := adoptedNode(t)
	require.NoError(t, w.sim.PutSet(hns.SetPolicy{ID: azureID("podlabel-app:api"), Name: "podlabel-app:api", Type: hns.IPSet,
		Values: []string{"10.0.0.2"}})) // x/db, and not x/api
	require.NoError(t, w.sim.PutSet(hns.SetPolicy{ID: azureID("nslabel-team:blue"), Name: "nslabel-team:blue", Type: hns.NestedIPSet,
		Values: []string{azureID("empty-emptyhashset"), azureID("ns-y"), azureID("ns-z")}}))
	all := probes(w.sim, adoptedPeers, 80, 443)
	before := verdicts(t, w.sim, all)
	fresh := adoptedNode(t)
	after := verdicts(t, fresh.sim, all)
	require.NotEmpty(t, gocmp.Diff(before, after))

	stop := watchI4(t, w.sim, before, after)
	w.do(append(adoptedCluster, "apply", "calls SetPolicy/Add=1 SetPolicy/Update=2 ACL/Update=2")...)
	require.Positive(t, stop())
	require.Empty(t, gocmp.Diff(after, verdicts(t, w.sim, all)))
}

// TestStrangersID: a set of another program has the name of one of ours, under an id that
// is not ours. HNS refuses ours, so the rules that need it are left out until the other set
// is gone.
func TestStrangersID(t *testing.T) {
	w := newWorld(t)
	w.do("endpoint ep-web 10.0.0.1", "endpoint ep-db 10.0.0.2", "endpoint ep-free 10.0.0.3")
	require.NoError(t, w.sim.PutSet(hns.SetPolicy{ID: hns.SetIDPrefix + "1234567", Name: "podlabel-app:api", Type: hns.IPSet, Values: []string{"10.0.1.2"}}))
	w.do("restart grace=1m")
	w.do(append(adoptedCluster, "! apply", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-web in block")...)
	w.do("wait 2m")
	w.settle()
	w.do("wait 10m")
	w.settle()
	w.do("trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-web in allow")
}

// setsByName returns the sets of the network.
func setsByName(sim *hnsfault.Sim) map[string]hns.SetPolicy {
	out := map[string]hns.SetPolicy{}
	for _, s := range sim.Sets() {
		out[s.Name] = s
	}
	return out
}

// requireOnce checks that no endpoint is written twice, and theirs stay.
func requireOnce(t *testing.T, calls []hnsfault.Call) {
	t.Helper()
	written := map[string]int{}
	for _, c := range calls {
		if strings.HasPrefix(c.Op, "ACL/") {
			written[c.Target]++
			require.Len(t, c.Policies, len(c.ACLs)+len(hnssim.DefaultForeign()))
		}
	}
	require.Equal(t, map[string]int{"ep-web": 1, "ep-db": 1}, written)
}

// requireOrphansOnly checks that exactly the sets that we do not want are
// removed, nested ones first.
func requireOrphansOnly(t *testing.T, calls []hnsfault.Call, had, want map[string]hns.SetPolicy) {
	t.Helper()
	var removed []hns.SetPolicy
	for _, c := range calls {
		if isWrite(c.Op) {
			require.Equal(t, "SetPolicy/Remove", c.Op)
			removed = append(removed, c.Sets...)
		}
	}
	require.True(t, slices.IsSortedFunc(removed, func(a, b hns.SetPolicy) int { return cmp.Compare(b.Type, a.Type) }))
	var names, orphans []string
	for _, s := range removed {
		names = append(names, s.Name)
	}
	for name := range had {
		if _, wanted := want[name]; !wanted {
			orphans = append(orphans, name)
		}
	}
	require.ElementsMatch(t, orphans, names)
	require.NotEmpty(t, names)
}
