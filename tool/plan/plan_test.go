package plan_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/manifest"
	"github.com/winnpm/winnpm/tool/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

const shop = "../../examples/shop"

// change is that of a file of objects.
func change(t testing.TB, w cluster.World, path string, remove bool) cluster.Change {
	t.Helper()
	objects, _, err := manifest.Load([]string{path}, manifest.Options{})
	require.NoError(t, err)
	c, err := cluster.Apply(w, objects, cluster.ChangeOptions{Delete: remove})
	require.NoError(t, err)
	return c
}

// setting is the change that sets policies and deletes those of some names.
func setting(w cluster.World, policies []*networkingv1.NetworkPolicy, clusters []*v1alpha2.ClusterNetworkPolicy, remove ...string) cluster.Change {
	c := cluster.Change{After: w, Named: remove}
	for _, np := range policies {
		c.Named = append(c.Named, np.Namespace+"/"+np.Name)
	}
	for _, cnp := range clusters {
		c.Named = append(c.Named, "ClusterNetworkPolicy/"+cnp.Name)
	}
	c.After.Policies, c.After.ClusterPolicies = slices.Clone(policies), slices.Clone(clusters)
	for _, np := range w.Policies {
		if !slices.Contains(c.Named, np.Namespace+"/"+np.Name) {
			c.After.Policies = append(c.After.Policies, np)
		}
	}
	for _, cnp := range w.ClusterPolicies {
		if !slices.Contains(c.Named, "ClusterNetworkPolicy/"+cnp.Name) {
			c.After.ClusterPolicies = append(c.After.ClusterPolicies, cnp)
		}
	}
	return c
}

// TestTexts has plans as a person reads them.
func TestTexts(t *testing.T) {
	for _, tc := range []struct {
		name, path string
		remove     bool
	}{
		{"checkout", "testdata/checkout.yaml", false},
		{"nothing", shop + "/21-shop-policies.yaml", false},
		{"delete", shop + "/21-shop-policies.yaml", true},
		{"delete-one", "testdata/gateway.yaml", true},
		{"admin", "../../examples/plan/sandbox.yaml", false},
		{"rollout", "../../examples/plan/rollout.yaml", false},
		{"delete-sandbox", shop + "/50-sandbox.yaml", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			world, err := cluster.Read(t.Context(), cluster.Options{Manifests: []string{shop}})
			require.NoError(t, err)
			c := change(t, world, tc.path, tc.remove)
			got, err := plan.New(t.Context(), world, c)
			require.NoError(t, err)
			var b strings.Builder
			require.NoError(t, got.WriteText(&b, false))
			path := filepath.Join("testdata", tc.name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Empty(t, gocmp.Diff(string(want), b.String()))
			text, err := json.Marshal(got)
			require.NoError(t, err)
			require.NotContains(t, string(text), "null", "a list without entries is []")
		})
	}
}

// TestNodesFlip: the addresses of nodes are told from others outside.
func TestNodesFlip(t *testing.T) {
	pod := cluster.Pod{Pod: desired.Pod{Namespace: "x", Name: "a", UID: "u", Addr: netip.MustParseAddr("10.0.0.1"), Local: true}, Node: "n1"}
	w := cluster.World{
		Pods: []cluster.Pod{pod}, Namespaces: []desired.Namespace{{Name: "x"}},
		Nodes: []cluster.Node{node("n1", netip.MustParseAddr("10.240.0.4")), node("n2", netip.MustParseAddr("10.240.0.5"), netip.MustParseAddr("8.8.8.8"))},
	}
	everyNode := []v1alpha2.ClusterNetworkPolicyEgressPeer{{Nodes: &metav1.LabelSelector{}}}
	rule := func(action v1alpha2.ClusterNetworkPolicyRuleAction, to []v1alpha2.ClusterNetworkPolicyEgressPeer) v1alpha2.ClusterNetworkPolicyEgressRule {
		return v1alpha2.ClusterNetworkPolicyEgressRule{Action: action, To: to}
	}
	for want, rules := range map[string][]v1alpha2.ClusterNetworkPolicyEgressRule{
		"addresses in 8.8.8.8/32, 10.240.0.4/31": {rule(v1alpha2.ClusterNetworkPolicyRuleActionDeny, everyNode)},
		"addresses not in 8.8.8.8/32, 10.240.0.4/31": {
			rule(v1alpha2.ClusterNetworkPolicyRuleActionAccept, everyNode),
			rule(v1alpha2.ClusterNetworkPolicyRuleActionDeny, []v1alpha2.ClusterNetworkPolicyEgressPeer{{Networks: []v1alpha2.CIDR{"0.0.0.0/0"}}}),
		},
	} {
		cnp := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha2.ClusterNetworkPolicySpec{
			Tier: v1alpha2.AdminTier, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}, Egress: rules,
		}}
		got, err := plan.New(t.Context(), w, setting(w, nil, []*v1alpha2.ClusterNetworkPolicy{cnp}))
		require.NoError(t, err)
		require.Len(t, got.Outside, 1)
		require.Equal(t, want, got.Outside[0].To)
	}
}

// Policies of all tiers are changed alike.
func TestChangesOfClusterPolicies(t *testing.T) {
	cnp := func(name string, priority int32) *v1alpha2.ClusterNetworkPolicy {
		return &v1alpha2.ClusterNetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier, Priority: priority},
		}
	}
	w := cluster.World{
		ClusterPolicies: []*v1alpha2.ClusterNetworkPolicy{cnp("same", 1), cnp("other", 1), cnp("gone", 1)},
		Policies:        []*networkingv1.NetworkPolicy{deny("x")},
	}
	got, err := plan.New(t.Context(), w, setting(w, nil,
		[]*v1alpha2.ClusterNetworkPolicy{cnp("same", 1), cnp("other", 2), cnp("fresh", 1)}, "ClusterNetworkPolicy/gone", "x/deny"))
	require.NoError(t, err)
	require.Equal(t, []plan.PolicyChange{
		{Policy: "ClusterNetworkPolicy/fresh", Change: "new", SelectsNothing: true},
		{Policy: "ClusterNetworkPolicy/gone", Change: "deleted"},
		{Policy: "ClusterNetworkPolicy/other", Change: "changed", SelectsNothing: true},
		{Policy: "ClusterNetworkPolicy/same", Change: "unchanged", SelectsNothing: true},
		{Policy: "x/deny", Change: "deleted"},
	}, got.Policies)
}

// deny isolates every pod of a namespace.
func deny(namespace string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deny"},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}
}

// TestADumpIsOfOneNode: of other nodes it tells no writes; what others put on an
// endpoint is there in the plan, and the policies that wait for a write count as
// they are wanted.
func TestADumpIsOfOneNode(t *testing.T) {
	d := state.Dump{
		Node: "n1", NodeAddrs: []string{"10.9.0.1", "bad"},
		Pods: []state.PodDump{
			{Pod: "x/here", Addr: "10.0.0.1", Local: true, Owner: true, Endpoints: []string{"e1", "gone"}, Ports: []string{"http:80/TCP", "bad"}},
			{Pod: "x/late", Addr: "10.0.0.2", Local: true, Owner: true},
			{Pod: "x/there", Addr: "10.0.1.1", Owner: true},
			{Pod: "x/loser", Addr: "10.0.1.1"},
		},
		Endpoints: []state.EndpointDump{{ID: "e1", Pod: "x/here", Known: true, Tiered: true, ForeignRules: []hns.ACL{
			{Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 65500},
		}}},
	}
	world, err := cluster.FromDump(d)
	require.NoError(t, err)
	got, err := plan.New(t.Context(), world, setting(world, []*networkingv1.NetworkPolicy{deny("x")}, nil))
	require.NoError(t, err)
	require.Equal(t, 1, got.NodesSeen)
	require.Len(t, got.Nodes, 1)
	require.Equal(t, 2, got.Nodes[0].Endpoints)
	require.Equal(t, 3, got.Pods)
	// What tiered rules do is not known, before and after, unless the other end blocks.
	require.Equal(t, 4, got.Between.Flipped)
	for _, f := range got.Flips {
		require.NotEqual(t, "x/here", f.To)
		require.Equal(t, explain.Blocked, f.After)
	}
}

// A dump knows the nodes of its cluster when one of its policies asks for them.
func TestNodesOfADump(t *testing.T) {
	nodes := []v1alpha2.ClusterNetworkPolicyEgressRule{{Action: "Deny", To: []v1alpha2.ClusterNetworkPolicyEgressPeer{{Nodes: &metav1.LabelSelector{}}}}}
	asks := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "asks"}, Spec: v1alpha2.ClusterNetworkPolicySpec{Tier: "Admin", Egress: nodes}}
	asked := []*v1alpha2.ClusterNetworkPolicy{asks}
	d := state.Dump{Node: "n1"}
	w, err := cluster.FromDump(d)
	require.NoError(t, err)
	_, err = plan.New(t.Context(), w, setting(w, nil, asked))
	require.ErrorIs(t, err, plan.ErrNoNodes)

	d.ClusterPolicies = []state.ClusterPolicy{{Name: "other", Spec: &asks.Spec}}
	d.Nodes = []state.NodeDump{{Name: "n1"}}
	w, err = cluster.FromDump(d)
	require.NoError(t, err)
	require.Equal(t, []cluster.Node{node("n1")}, w.Nodes)
	require.Equal(t, asks.Spec, w.ClusterPolicies[0].Spec)
	got, err := plan.New(t.Context(), w, setting(w, nil, asked))
	require.NoError(t, err)
	require.Equal(t, []plan.PolicyChange{{Policy: "ClusterNetworkPolicy/asks", Change: "new", SelectsNothing: true}}, got.Policies)

	d.ClusterPolicies[0].Spec = nil
	_, err = cluster.FromDump(d)
	require.EqualError(t, err, "what ClusterNetworkPolicy other says: the dump does not have it: ask a newer agent")
}

func TestADumpWithoutSpecs(t *testing.T) {
	_, err := cluster.FromDump(state.Dump{Policies: []state.PolicyDump{{Policy: "x/p"}}})
	require.ErrorIs(t, err, cluster.ErrNoSpec)
}

// TestWarnings: what the change leaves out counts, what was left out before by
// other policies does not.
func TestWarnings(t *testing.T) {
	six := func(name string) *networkingv1.NetworkPolicy {
		np := deny("x")
		np.Name = name
		np.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "fd00::/8"}}}}}
		return np
	}
	w := cluster.World{Policies: []*networkingv1.NetworkPolicy{six("old"), six("same")}}
	got, err := plan.New(t.Context(), w, setting(w, []*networkingv1.NetworkPolicy{six("new"), six("same")}, nil))
	require.NoError(t, err)
	var about []string
	for _, w := range got.Warnings {
		about = append(about, w.Object)
	}
	require.Equal(t, []string{"x/new", "x/same"}, about)
	require.Equal(t, []plan.PolicyChange{{Policy: "x/new", Change: "new", SelectsNothing: true}, {Policy: "x/same", Change: "unchanged", SelectsNothing: true}}, got.Policies)
}

// large is a world of many pods, on ten nodes, in as many workloads as a policy
// is for.
func large(pods, each int) cluster.World {
	w := cluster.World{Namespaces: []desired.Namespace{{Name: "x"}}}
	for i := range 10 {
		w.Nodes = append(w.Nodes, node(fmt.Sprintf("n%d", i)))
	}
	for i := range pods {
		app := fmt.Sprintf("w%d", i/each)
		w.Pods = append(w.Pods, cluster.Pod{Node: fmt.Sprintf("n%d", i%10), Pod: desired.Pod{
			Namespace: "x", Name: fmt.Sprintf("%s-%d", app, i%each), Labels: map[string]string{"app": app},
			Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}),
		}})
	}
	for i := range pods / each {
		np := deny("x")
		np.Name = fmt.Sprintf("p%d", i)
		np.Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("w%d", i)}}
		peer := metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("w%d", i/2)}}
		np.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &peer}}}}
		w.Policies = append(w.Policies, np)
	}
	return w
}

// A dump that was edited may give two pods one UID, which no API server does.
func TestDumpWithAUIDTwice(t *testing.T) {
	w, err := cluster.FromDump(state.Dump{Pods: []state.PodDump{{Pod: "x/a", UID: "u"}, {Pod: "x/b", UID: "u"}}})
	require.NoError(t, err)
	require.NotEqual(t, w.Pods[0].UID, w.Pods[1].UID)
}
