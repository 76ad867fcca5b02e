package ui

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// settledNode is a node where all is in force: x/web is selected by x/web.
func settledNode() state.Dump {
	rule := hns.ACL{ID: "azure-acl-x.web", Action: hns.Block, Direction: hns.In, Priority: 3000}
	spec := func(app string) *networkingv1.NetworkPolicySpec {
		return &networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
	}
	return state.Dump{
		Policies: []state.PolicyDump{
			{Policy: "x/web", Selected: []string{"x/web"}, Spec: spec("web")},
			{Policy: "x/far", Spec: spec("far")},
			{Policy: "x/typo", Spec: spec("wbe")},
			{Policy: "z/none", Spec: spec("web")},
		},
		Pods: []state.PodDump{
			{Pod: "x/web", Local: true, Owner: true, Addr: "10.0.0.1", Labels: map[string]string{"app": "web"}, Endpoints: []string{"e1"}},
			{Pod: "x/far", Labels: map[string]string{"app": "far"}},
			{Pod: "x/done", Labels: map[string]string{"app": "wbe"}, Finished: true},
			{Pod: "x/host", Local: true, HostNetwork: true},
			{Pod: "x/free", Local: true},
		},
		Endpoints: []state.EndpointDump{{ID: "e1", Pod: "x/web", Known: true, Applied: []hns.ACL{rule}, Wanted: []hns.ACL{rule}}},
	}
}

// statesOf has what the lists say of every policy and pod.
func statesOf(t *testing.T, d state.Dump) map[string]verdict {
	t.Helper()
	h, out := handler(d), map[string]verdict{}
	var policies listing[policyEntry]
	require.NoError(t, json.Unmarshal(get(t, h, "/api/policies").Body.Bytes(), &policies))
	for _, p := range policies.Entries {
		out[policyMark+p.Policy] = p.State
	}
	var pods listing[podEntry]
	require.NoError(t, json.Unmarshal(get(t, h, "/api/pods").Body.Bytes(), &pods))
	for _, p := range pods.Entries {
		out[p.Pod] = p.State
	}
	return out
}

// TestInForce: the words of policies and pods, each with its reason.
func TestInForce(t *testing.T) {
	got := statesOf(t, settledNode())
	require.Equal(t, map[string]verdict{
		"policy x/web":  {Word: isInForce},
		"policy x/far":  {isIdle, "it selects no pod of this node"},
		"policy x/typo": {isUnused, "spec.podSelector matches none of the pods of namespace x, so the policy changes nothing; check its labels"},
		"policy z/none": {isUnused, "there is no pod in namespace z, so the policy changes nothing"},
		"x/web":         {Word: isInForce},
		"x/far":         {isElsewhere, "the agent of its node knows"},
		"x/done":        {isApart, "it has finished"},
		"x/host":        {isApart, "it is in its node's network"},
		"x/free":        {isFree, "no policy selects it: everybody may connect to it, and it to everybody"},
	}, got)
	for name, tc := range map[string]struct {
		change      func(*state.Dump)
		policy, pod inForce
	}{
		"a rule is not there": {func(d *state.Dump) { d.Endpoints[0].Applied = nil }, isPending, isPending},
		"a rule is left":      {func(d *state.Dump) { d.Endpoints[0].Wanted = nil }, isPending, isPending},
		"an update waits":     {func(d *state.Dump) { d.Pending = []state.Pending{{Pod: "x/web"}} }, isPending, isPending},
		"nothing is known":    {func(d *state.Dump) { d.Endpoints[0].Known = false }, isPending, isPending},
		"HNS rejects":         {func(d *state.Dump) { d.Endpoints[0].Next.Refused = []string{"x/web"} }, isRefused, isRefused},
		"a set lacks a member": {func(d *state.Dump) {
			d.Sets = []state.SetDump{{Name: "ns-x", Missing: []string{"10.0.0.1"}, Holders: []string{"selector x/web"}}}
		}, isPending, isInForce},
		"a field is left out": {func(d *state.Dump) { d.Policies[0].Problems = []string{"no"} }, isLeftOut, isInForce},
		"a budget": {func(d *state.Dump) {
			d.Warnings = []state.Warning{{Kind: "NetworkPolicy", Object: "x/web", Reason: state.ReasonOverBudget, Message: "too much"}}
		}, isLeftOut, isInForce},
		"an address is contested": {func(d *state.Dump) {
			d.Warnings = []state.Warning{{Kind: "Pod", Object: "x/web", Reason: state.ReasonAddressContested, Message: "two"}}
		}, isInForce, isLeftOut},
	} {
		d := settledNode()
		tc.change(&d)
		got := statesOf(t, d)
		require.Equal(t, tc.policy, got["policy x/web"].Word, name)
		require.Equal(t, tc.pod, got["x/web"].Word, name)
		if tc.policy != isInForce {
			require.NotEmpty(t, got["policy x/web"].Why, name)
		}
	}
}

// TestClusterPoliciesInForce: a ClusterNetworkPolicy has the words that others have, under its
// own name, and a pod that it alone selects is not free.
func TestClusterPoliciesInForce(t *testing.T) {
	subject := func(app string) *v1alpha2.ClusterNetworkPolicySpec {
		return &v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier, Priority: 7, Subject: v1alpha2.ClusterNetworkPolicySubject{Pods: &v1alpha2.NamespacedPod{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}}
	}
	dump := func() state.Dump {
		d := settledNode()
		d.ClusterPolicies = []state.ClusterPolicy{{Name: "all", Selected: []string{"x/web", "x/free"}, Spec: subject("web")}, {Name: "far", Spec: subject("far")}, {Name: "typo", Spec: subject("wbe")}}
		return d
	}
	got := statesOf(t, dump())
	require.Equal(t, []inForce{isInForce, isIdle, isUnused, isInForce}, []inForce{got["policy all"].Word, got["policy far"].Word, got["policy typo"].Word, got["x/free"].Word})
	for name, tc := range map[string]struct {
		change func(*state.Dump)
		want   inForce
	}{
		"a rule is not there": {func(d *state.Dump) {
			d.Endpoints[0].Wanted = append(d.Endpoints[0].Wanted, hns.ACL{ID: state.ACLID(policy.ClusterKey("all")), Direction: hns.In})
		}, isPending},
		"HNS rejects": {func(d *state.Dump) { d.Endpoints[0].Next.Refused = []string{policy.ClusterKey("all").String()} }, isRefused},
		"a budget": {func(d *state.Dump) {
			d.Warnings = []state.Warning{{Kind: "ClusterNetworkPolicy", Object: "all", Reason: state.ReasonOverBudget, Message: "too much"}}
		}, isLeftOut},
		"a set lacks a member": {func(d *state.Dump) {
			d.Sets = []state.SetDump{{Name: "ns-x", Missing: []string{"10.0.0.1"}, Holders: []string{"selector " + policy.ClusterKey("all").String()}}}
		}, isPending},
	} {
		d := dump()
		tc.change(&d)
		require.Equal(t, tc.want, statesOf(t, d)["policy all"].Word, name)
	}
	var shown policyDetail
	require.NoError(t, json.Unmarshal(get(t, handler(dump()), "/api/clusterpolicies/far").Body.Bytes(), &shown))
	require.Equal(t, []any{"ClusterNetworkPolicy", "Admin", int32(7)}, []any{shown.Kind, shown.Tier, shown.Priority})
	require.Contains(t, shown.YAML, "kind: ClusterNetworkPolicy\nmetadata:\n  name: far\nspec:\n")
}

// TestYAML: what is shown can be applied again and is the policy, whatever it says.
func TestYAML(t *testing.T) {
	d := settledNode()
	hostile := "</pre>\n---\nkind: Secret # \"'\u202e"
	d.Policies[0].Spec.PodSelector.MatchLabels[hostile] = hostile
	rec := get(t, handler(d), "/api/policies/x/web")
	require.Equal(t, http.StatusOK, rec.Code)
	var shown struct {
		YAML string
		Spec any
	}
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &shown))
	require.Nil(t, shown.Spec, "once is enough")
	var back networkingv1.NetworkPolicy
	require.NoError(t, yaml.UnmarshalStrict([]byte(shown.YAML), &back))
	require.Equal(t, *d.Policies[0].Spec, back.Spec)
	require.Equal(t, "x/web", back.Namespace+"/"+back.Name)
	require.Equal(t, "NetworkPolicy", back.Kind)
	require.False(t, strings.Contains(shown.YAML, "\n---"))
	d.Policies[0].Spec = nil
	require.NotContains(t, get(t, handler(d), "/api/policies/x/web").Body.String(), "yaml")
}
