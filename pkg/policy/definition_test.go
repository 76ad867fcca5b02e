package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// TestDefinition has the kinds of names, and names that no policy gives.
func TestDefinition(t *testing.T) {
	for name, want := range map[ipsets.Name]string{
		ipsets.Namespace("x"):                                "ns-x",
		ipsets.PodLabelKey("app"):                            "podlabel-app",
		ipsets.PodLabel("a.b/app", ""):                       "podlabel-a.b/app:",
		ipsets.NestedLabel("app", "v2", "v1", ""):            "nestedlabel-app::v1:v2 = podlabel-app: | podlabel-app:v1 | podlabel-app:v2",
		ipsets.AllNamespaces():                               "nslabel-all-namespaces = namespaces everything",
		ipsets.NamespaceLabel("team", "a"):                   "nslabel-team:a = namespaces team=a",
		ipsets.NamespaceSelector("team in (a,b),!x"):         "nslabel-{team in (a,b),!x} = namespaces team in (a,b),!x",
		ipsets.NamespaceSelector("in in (,in,notin),!notin"): "nslabel-{in in (,in,notin),!notin} = namespaces in in (,in,notin),!notin",
		ipsets.PodSelector("x", "app!=web"):                  `podselector-x/app!=web = pods app!=web in namespace "x"`,
		ipsets.PodSelector("", "a.b/app notin (a,b)"):        `podselector-/a.b/app notin (a,b) = pods a.b/app notin (a,b) in namespace ""`,
		ipsets.Empty():                                       "empty-emptyhashset",
		ipsets.Nodes(""):                                     "nodes- = nodes everything",
		ipsets.Nodes("role=worker,zone notin (a,b)"):         "nodes-role=worker,zone notin (a,b) = nodes role=worker,zone notin (a,b)",
		ipsets.InBlocks("10.0.0.0/8,12.0.0.1/32"):            "inblocks-10.0.0.0/8,12.0.0.1/32 = inside 10.0.0.0/8 | 12.0.0.1/32",
		ipsets.InBlocks("10.0.0.0/8").Deny():                 "deny-inblocks-10.0.0.0/8 = inside 10.0.0.0/8",
		ipsets.Namespace("x").Deny():                         "deny-ns-x",
		ipsets.NamespaceLabel("team", "a").Deny():            "deny-nslabel-team:a = namespaces team=a",
		ipsets.NestedLabel("app", "v2", "v1").Deny():         "deny-nestedlabel-app:v1:v2 = deny-podlabel-app:v1 | deny-podlabel-app:v2",
		ipsets.PodSelector("", "app!=web").Deny():            `deny-podselector-/app!=web = pods app!=web in namespace ""`,
		ipsets.Doubt():                                       "deny-doubt-all",
		ipsets.DoubtAddrs():                                  "deny-doubtaddresses-all",
	} {
		def, ok := policy.Definition(name)
		require.True(t, ok, "%s", name)
		require.Equal(t, "set "+want, setText(def))
	}

	for _, name := range []ipsets.Name{
		{},
		ipsets.NamedPort("http", "TCP", 80),
		ipsets.NestedLabel("app", "v1"),
		ipsets.NestedLabel("app"),
		ipsets.NamespaceLabel("no blank", "a"),
		ipsets.NamespaceLabel("team", "no blank"),
		ipsets.NamespaceLabel("team:a", "b"),
		ipsets.NamespaceSelector(""),
		ipsets.NamespaceSelector("team=a"),
		ipsets.NamespaceSelector("team==a,x"),
		ipsets.NamespaceSelector("team in (a)"),
		ipsets.NamespaceSelector("team in (b,a)"),
		ipsets.NamespaceSelector("team,team"),
		ipsets.NamespaceSelector("!x,team in (a,b)"),
		ipsets.NamespaceSelector("team>5"),
		ipsets.NamespaceSelector("team<5"),
		ipsets.NamespaceSelector("team in ("),
		ipsets.PodSelector("x", "app=web"),
		ipsets.PodSelector("x", ""),
		ipsets.PodSelector("x", "app!=web}"),
		ipsets.PodSelector("x", "b!=c,a"),
		ipsets.PodSelector("x", "b!=c,a").Deny(),
		ipsets.NamedPort("http", "TCP", 80).Deny(),
		ipsets.Empty().Deny(),
		ipsets.Doubt().Twin(),
		ipsets.DoubtAddrs().Twin(),
		ipsets.Nodes("b,a"),
		ipsets.InBlocks(""),
		ipsets.InBlocks("10.0.0.1/8"),
		ipsets.InBlocks("12.0.0.0/8,10.0.0.0/8"),
		ipsets.InBlocks("10.0.0.0/8,10.1.0.0/16"),
		ipsets.InBlocks("10.0.0.0/8,11.0.0.0/8"),
		ipsets.InBlocks("fd00::/8"),
	} {
		_, ok := policy.Definition(name)
		require.False(t, ok, "%s", name)
	}
}

// comeBack checks that the sets of drawn policies are defined by their names, and that there are some
// of each kind.
func comeBack(t *testing.T, draw func(*rapid.T) policy.Policy, kinds ...ipsets.Kind) {
	t.Helper()
	seen := map[ipsets.Kind]int{}
	rapid.Check(t, func(t *rapid.T) {
		for _, def := range draw(t).Sets {
			seen[def.Name.Kind()]++
			got, ok := policy.Definition(def.Name)
			require.True(t, ok, "%s", def.Name)
			require.Equal(t, def, got)
		}
	})
	for _, kind := range kinds {
		require.Positive(t, seen[kind], "kind %d", kind)
	}
}

// TestEveryDefinitionComesBack: the sets of any policy are defined by their
// names.
func TestEveryDefinitionComesBack(t *testing.T) {
	comeBack(t, func(t *rapid.T) policy.Policy {
		np := shape{}.policy(t)
		np.Spec.PodSelector, np.Spec.PolicyTypes = metav1.LabelSelector{}, nil
		key := pick(t, []string{"app", "in", "notin", "a.b/in", "all-namespaces", "X_y"}, "odd key")
		value := pick(t, []string{"", "in", "notin", "exists", "x.Y-z"}, "odd value")
		one := metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value, "a"}[:rapid.IntRange(1, 2).Draw(t, "values")]}
		not := one
		not.Operator = metav1.LabelSelectorOpNotIn
		var peers []networkingv1.NetworkPolicyPeer
		for _, terms := range [][]metav1.LabelSelectorRequirement{{one}, {not}, {one, not}} {
			peers = append(peers, networkingv1.NetworkPolicyPeer{
				PodSelector:       &metav1.LabelSelector{MatchExpressions: terms},
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}, MatchExpressions: list(t, 1, func() metav1.LabelSelectorRequirement { return not })},
			})
		}
		np.Spec.Ingress = append(np.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: peers})
		return policy.Compile(np)
	}, ipsets.KindNamespace, ipsets.KindPodLabel, ipsets.KindPodSelector, ipsets.KindNestedLabel, ipsets.KindNamespaceSelector)
}

// TestEveryDefinitionOfAClusterComesBack: so are those of any cluster policy, twins too.
func TestEveryDefinitionOfAClusterComesBack(t *testing.T) {
	comeBack(t, func(t *rapid.T) policy.Policy {
		cnp := shape{}.clusterPolicy(t)
		if len(cnp.Spec.Egress) > 0 { // several values of a label are seldom drawn
			p := shape{}.namespacedPod(t)
			p.PodSelector.MatchExpressions = append(p.PodSelector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: "several", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"},
			})
			r := &cnp.Spec.Egress[0]
			r.To = append(r.To, v1alpha2.ClusterNetworkPolicyEgressPeer{Pods: p})
		}
		return policy.CompileCluster(cnp)
	}, ipsets.KindPodLabel, ipsets.KindPodSelector, ipsets.KindNestedLabel, ipsets.KindNamespaceSelector, ipsets.KindNodes, ipsets.KindDoubt)
}

// TestDefinitionOfAnyText: whatever a foreign hand calls its sets, a definition
// is one of exactly that name.
func TestDefinitionOfAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[!a-c=/:(), {}in]*`), rapid.StringMatching(`([0-2]\.0\.0\.0/[78],?){0,3}`)).Draw(t, "text")
		for _, n := range []ipsets.Name{
			ipsets.Namespace(text), ipsets.PodLabelKey(text), ipsets.PodSelector("x", text), ipsets.NestedLabel("app", text, "v"),
			ipsets.NestedLabel(text, "v", "w"), ipsets.NamespaceSelector(text), ipsets.NamespaceLabel("app", text), ipsets.NamespaceLabel(text, "v"),
			ipsets.Nodes(text), ipsets.InBlocks(text), ipsets.InBlocks(text).Deny(), ipsets.NestedLabel("app", text, "v").Deny(), ipsets.PodSelector("x", text).Deny(),
		} {
			if def, ok := policy.Definition(n); ok {
				require.Equal(t, n, def.Name)
				require.True(t, fits(def), setText(def))
			}
		}
	})
}
