package manifest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/manifest"
)

// clusterCase is one of testdata/clusterpolicies.yaml.
type clusterCase struct {
	Name    string          `json:"name"`
	Policy  json.RawMessage `json:"policy"`
	Refused string          `json:"refused"`
	// OnServer is "accepted" where the API server takes what Load refuses.
	OnServer string `json:"onServer"`
}

func clusterCases(t testing.TB) []clusterCase {
	t.Helper()
	text, err := os.ReadFile("testdata/clusterpolicies.yaml")
	require.NoError(t, err)
	var table struct {
		Defaults any           `json:"defaults"`
		Cases    []clusterCase `json:"cases"`
	}
	require.NoError(t, yaml.Unmarshal(text, &table))
	return table.Cases
}

// What Load refuses is what the API server refuses, and selectors that are none.
// That the server does is asserted in test/e2e, on the same cases.
func TestClusterPolicies(t *testing.T) {
	cases := clusterCases(t)
	require.Greater(t, len(cases), 100)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			o, warnings, err := load(string(c.Policy))
			if c.Refused != "" {
				require.Error(t, err)
				at, ok := strings.CutSuffix(err.Error(), ": "+c.Refused)
				require.True(t, ok, err)
				require.Regexp(t, `^stdin:[0-9]+: document 1: ClusterNetworkPolicy [pP_1]+$`, at)
				return
			}
			require.NoError(t, err)
			require.Empty(t, warnings)
			require.Len(t, o.ClusterPolicies, 1)
			require.Equal(t, "p", o.ClusterPolicies[0].Name)
			require.Empty(t, o.ClusterPolicies[0].Namespace)
		})
	}
}

const clusterText = "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\n"

// cnp returns the text of a ClusterNetworkPolicy with rules for what leaves.
func cnp(egress string) string {
	return clusterText + "spec: {tier: Admin, priority: 1, subject: {namespaces: {}}, egress: " + egress + "}\n"
}

func TestClusterPolicyHostBits(t *testing.T) {
	o, warnings, err := load(cnp("[{action: Deny, to: [{networks: [10.1.2.3/8, 10.0.0.0/8, '2001:db8::1/32']}]}]"))
	require.NoError(t, err)
	require.Equal(t, []state.Warning{
		{Object: "p", Kind: "ClusterNetworkPolicy", Reason: manifest.HostBitsMasked, Message: `spec.egress[0].to[0].networks[0]: "10.1.2.3/8" has bits behind its mask; 10.0.0.0/8 is used`},
		{Object: "p", Kind: "ClusterNetworkPolicy", Reason: manifest.HostBitsMasked, Message: `spec.egress[0].to[0].networks[2]: "2001:db8::1/32" has bits behind its mask; 2001:db8::/32 is used`},
	}, warnings)
	networks := o.ClusterPolicies[0].Spec.Egress[0].To[0].Networks
	require.Equal(t, []v1alpha2.CIDR{"10.0.0.0/8", "10.0.0.0/8", "2001:db8::/32"}, networks)
}

// One name in two places is one object, whatever namespaces they have.
func TestClusterPolicyTwice(t *testing.T) {
	_, _, err := load(cnp("[]") + "---\n" + strings.Replace(cnp("[]"), "name: p", "name: p, namespace: x", 1))
	require.EqualError(t, err, "stdin:8: document 2: ClusterNetworkPolicy x/p: metadata.name: the object is there twice, first in stdin document 1; remove or rename one")
}

// Lists of both kinds hold them, and their places are known.
func TestClusterPolicyForms(t *testing.T) {
	const rule = "[{action: Pass, to: [{namespaces: {}}]}]"
	const metaSpec = "metadata: {name: %, labels: {a: b}}, spec: {tier: Baseline, priority: 0, subject: {namespaces: {}}, ingress: []}}"
	o, warnings, err := load(cnp(rule) + "---\napiVersion: v1\nkind: List\nitems:\n" +
		"- {apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, " + strings.ReplaceAll(metaSpec, "%", "b") +
		"\n---\n{\"apiVersion\": \"policy.networking.k8s.io/v1alpha2\", \"kind\": \"ClusterNetworkPolicyList\", \"items\": [{" + strings.ReplaceAll(metaSpec, "%", "a") + "]}\n")
	require.NoError(t, err)
	require.Empty(t, warnings)
	var names []string
	for _, p := range o.ClusterPolicies {
		names = append(names, p.Name)
	}
	require.Equal(t, []string{"a", "b", "p"}, names)
	require.Empty(t, o.Namespaces)
	require.Equal(t, map[string]string{
		"ClusterNetworkPolicy/p": "stdin:1", "ClusterNetworkPolicy/p spec.egress[0]": "stdin:4",
		"ClusterNetworkPolicy/b": "stdin:9", "ClusterNetworkPolicy/a": "stdin:11",
	}, o.Places)
}

// Policies of other projects, and those that came before, are named: nothing
// enforces them.
// TestMisspeltKindOfPolicy: a policy whose kind is misspelt is bad input, as it is for an
// API server; to skip it would open.
func TestMisspeltKindOfPolicy(t *testing.T) {
	const cluster, namespaced = "policy.networking.k8s.io/v1alpha2", "networking.k8s.io/v1"
	for _, tc := range [][3]string{
		{cluster, "ClusterNetworkpolicy", "ClusterNetworkPolicy"},
		{cluster, "ClusterNetworkPolicies", "ClusterNetworkPolicy"},
		{cluster, "NetworkPolicy", ""}, // has its own words
		{cluster, "AdminNetworkPolicy", "ClusterNetworkPolicy"},
		{namespaced, "Networkpolicy", "NetworkPolicy"},
		{namespaced, "NetworkPolicies", "NetworkPolicy"},
		{namespaced, "NetworkPolcy", "NetworkPolicy"},
	} {
		_, _, err := load("apiVersion: " + tc[0] + "\nkind: " + tc[1] + "\nmetadata: {name: p, namespace: x}\nspec: {}\n")
		require.Error(t, err, "%v", tc)
		if tc[2] != "" {
			require.ErrorContains(t, err, fmt.Sprintf("kind: %q is no kind of %s; use %s", tc[1], tc[0], tc[2]))
		}
	}
	_, warnings, err := load("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: p}\n---\napiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: p}\n")
	require.NoError(t, err)
	require.Len(t, warnings, 2)
}

func TestNotEnforced(t *testing.T) {
	object := func(version, kind string) string {
		return "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: a}\nspec: {any: 1}\n"
	}
	text := strings.Join([]string{
		object("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy"),
		object("policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy"),
		object("cilium.io/v2", "CiliumClusterwideNetworkPolicy"),
		object("crd.antrea.io/v1beta1", "ClusterNetworkPolicy"),
		object("projectcalico.org/v3", "NetworkPolicy"),
		object("crd.projectcalico.org/v1", "GlobalNetworkPolicy"),
	}, "---\n")
	want := []state.Warning{
		{Object: "a", Kind: "AdminNetworkPolicy", Reason: manifest.NotEnforced, Message: "stdin document 1: kind AdminNetworkPolicy of policy.networking.k8s.io/v1alpha1 is not enforced; verdicts are without it; use ClusterNetworkPolicy of policy.networking.k8s.io/v1alpha2"},
		{Object: "a", Kind: "BaselineAdminNetworkPolicy", Reason: manifest.NotEnforced, Message: "stdin document 2: kind BaselineAdminNetworkPolicy of policy.networking.k8s.io/v1alpha1 is not enforced; verdicts are without it; use ClusterNetworkPolicy of policy.networking.k8s.io/v1alpha2"},
		{Object: "a", Kind: "CiliumClusterwideNetworkPolicy", Reason: manifest.NotEnforced, Message: "stdin document 3: kind CiliumClusterwideNetworkPolicy of cilium.io/v2 is not enforced; verdicts are without it; say the same with NetworkPolicy or ClusterNetworkPolicy"},
		{Object: "a", Kind: "ClusterNetworkPolicy", Reason: manifest.NotEnforced, Message: "stdin document 4: kind ClusterNetworkPolicy of crd.antrea.io/v1beta1 is not enforced; verdicts are without it; say the same with NetworkPolicy or ClusterNetworkPolicy"},
		{Object: "a", Kind: "NetworkPolicy", Reason: manifest.NotEnforced, Message: "stdin document 5: kind NetworkPolicy of projectcalico.org/v3 is not enforced; verdicts are without it; say the same with NetworkPolicy or ClusterNetworkPolicy"},
		{Object: "a", Kind: "GlobalNetworkPolicy", Reason: manifest.NotEnforced, Message: "stdin document 6: kind GlobalNetworkPolicy of crd.projectcalico.org/v1 is not enforced; verdicts are without it; say the same with NetworkPolicy or ClusterNetworkPolicy"},
	}
	_, warnings, err := load(text)
	require.NoError(t, err)
	require.Equal(t, want, warnings)
}
