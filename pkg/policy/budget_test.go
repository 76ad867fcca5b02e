package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/policy"
)

// small are budgets that a test can exceed by hand: of five rules, and of eight.
var small = policy.Budgets{ObjectBytes: 5*66 + 10, NamespaceBytes: 8*66 + 10}

func TestExcessOfLabels(t *testing.T) {
	size := policy.SizeOfPod(map[string]string{"a": "1", "b": strings.Repeat("x", policy.LabelBytes-32*3-8)}, "http")
	require.Empty(t, policy.ExcessOfLabels(size))
	require.Equal(t, "32769 bytes of labels and named ports, of which 32768 are read at most", policy.ExcessOfLabels(size+2))
}

// TestSizeOf: every part of a policy counts, and what it causes besides its text.
func TestSizeOf(t *testing.T) {
	const small, large, view, block = 64 << 10, 256 << 10, 1 << 10, 32 << 10
	for _, tc := range []struct {
		spec                  string
		items, views, members int
	}{
		{`{}`, 0, 0, 0},
		{`{podSelector: {matchLabels: {a: b}}, policyTypes: [Ingress]}`, 5, 0, 0},
		{`{ingress: [{}, {}], egress: [{}]}`, 3, 0, 0},
		{`{ingress: [{ports: [{port: 1}, {port: 2}]}]}`, 3, 0, 0},
		{`{egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, 10.2.0.0/16]}}]}]}`, 4, 0, 0},
		{`{ingress: [{from: [{podSelector: {matchExpressions: [{key: a, operator: In, values: [x, y]}]}, namespaceSelector: {matchLabels: {a: b}}}]}]}`, 12, 0, 0},
		{`{ingress: [{from: [{podSelector: {matchExpressions: [{key: a, operator: DoesNotExist}]}}]}]}`, 6, 0, small},
		{`{egress: [{to: [{namespaceSelector: {}, podSelector: {matchExpressions: [{key: a, operator: NotIn, values: [x]}]}}]}]}`, 7, 0, large},
		{`{ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}}]}]}`, 6, 0, small},
		{`{egress: [{ports: [{port: http}, {port: 80}]}]}`, 3, view, 0},
		{`{ingress: [{ports: [{port: http}]}]}`, 2, 0, 0},
		{`{egress: [{ports: [{port: a}, {port: b}], to: [{podSelector: {}}, {podSelector: {matchLabels: {a: b}}}, {namespaceSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8}}, {ipBlock: {cidr: 11.0.0.0/8}}]}]}`,
			12, 2 * (2*view + block), 0},
	} {
		spec := parseSpec(t, tc.spec).Spec
		require.Equal(t, policy.Size{Bytes: spec.Size() + 64*tc.items + tc.views, Members: tc.members}, policy.SizeOf(&spec), tc.spec)
	}
}

// What is closed isolates whom it isolated, or more, allows nothing, and says why;
// nothing of what it was stays in memory through it.
func TestClose(t *testing.T) {
	var many, long strings.Builder
	for i := range 65 {
		fmt.Fprintf(&many, "k%d: v, ", i)
	}
	for i := range 40 {
		fmt.Fprintf(&long, "%s/k%d: v, ", strings.Repeat("a", 120), i)
	}
	for _, tc := range []struct {
		name, spec string
		isolates   [2]bool
		everyone   bool
	}{
		{"ingress", `{podSelector: {matchLabels: {app: a}}, ingress: [{}]}`, [2]bool{true, false}, false},
		{"egress by its rules", `{podSelector: {matchLabels: {app: a}}, egress: [{}]}`, [2]bool{true, true}, false},
		{"egress alone", `{podSelector: {matchLabels: {app: a}}, policyTypes: [Egress], egress: [{}]}`, [2]bool{false, true}, false},
		{"both", `{policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}`, [2]bool{true, true}, true},
		{"a subject of many terms", `{podSelector: {matchLabels: {` + many.String() + `}}}`, [2]bool{true, false}, true},
		{"a subject of many bytes", `{podSelector: {matchLabels: {` + long.String() + `}}}`, [2]bool{true, false}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			np := parseSpec(t, tc.spec)
			np.Spec = policy.Close(&np.Spec, "too much")
			require.Equal(t, "too much", policy.Excess(&np.Spec))
			c := policy.Compile(np)
			require.Equal(t, tc.isolates, c.Isolates)
			require.Empty(t, c.Rules)
			require.Empty(t, c.Sets)
			require.Equal(t, tc.everyone, c.Subject.Matches(nil))
			require.True(t, tc.everyone || c.Subject.Matches(map[string]string{"app": "a"}))
			require.Equal(t, []policy.Problem{{
				Reason: policy.ReasonOverBudget, Field: "spec",
				Message: "too much; the policy isolates and allows nothing. Make it smaller, or raise that key of the configuration",
			}}, c.Problems)
		})
	}
}

// drawPolicies draws policies of two namespaces, of few sizes.
func drawPolicies(t *rapid.T) []*networkingv1.NetworkPolicy {
	var out []*networkingv1.NetworkPolicy
	for i := range rapid.IntRange(0, 8).Draw(t, "policies") {
		np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
			Namespace: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "namespace"), Name: fmt.Sprint("p", i),
		}}
		np.Spec.Ingress = make([]networkingv1.NetworkPolicyIngressRule, rapid.IntRange(0, 8).Draw(t, "rules"))
		out = append(out, np)
	}
	return out
}

// TestFit: a policy over its own limit closes. All others of a namespace close if together they
// are over its limit, whatever their order and whatever other namespaces have.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawPolicies(t)
		sums := map[string]int{}
		for _, np := range list {
			if size := policy.SizeOf(&np.Spec); size.Bytes <= small.ObjectBytes {
				sums[np.Namespace] += size.Bytes
			}
		}
		for i, np := range small.Fit(list) {
			require.Equal(t, list[i].Name, np.Name)
			closed := policy.SizeOf(&list[i].Spec).Bytes > small.ObjectBytes || sums[np.Namespace] > small.NamespaceBytes
			require.Equal(t, closed, policy.Excess(&np.Spec) != "")
			require.Equal(t, closed, np != list[i], "a policy that is not closed is the object itself")
		}
	})
}
