package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/policy"
)

// small are budgets that a test can exceed by hand.
var small = policy.Budgets{Labels: 3, LabelBytes: 20, Ports: 2, Items: 6, Bytes: 200, NamespaceItems: 10, NamespaceBytes: 300}

func TestExcessOfLabels(t *testing.T) {
	for want, labels := range map[string]map[string]string{
		"": {"a": "1", "b": "2", "c": strings.Repeat("x", 15)},
		"4 labels, of which 3 are read at most (MaxLabelsPerObject)":                {"a": "", "b": "", "c": "", "d": ""},
		"21 bytes of labels, of which 20 are read at most (MaxLabelBytesPerObject)": {"a": strings.Repeat("x", 20)},
	} {
		require.Equal(t, want, small.ExcessOfLabels(labels))
	}
	require.Empty(t, small.ExcessOfPorts(2))
	require.Equal(t, "3 named ports, of which 2 are read at most (MaxNamedPortsPerPod)", small.ExcessOfPorts(3))
}

// Every part of a policy counts.
func TestSizeOf(t *testing.T) {
	for _, tc := range []struct {
		spec  string
		items int
	}{
		{`{}`, 0},
		{`{podSelector: {matchLabels: {a: b}}, policyTypes: [Ingress]}`, 2},
		{`{ingress: [{}, {}], egress: [{}]}`, 3},
		{`{ingress: [{ports: [{port: 1}, {port: 2}]}]}`, 3},
		{`{egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, 10.2.0.0/16]}}]}]}`, 4},
		{`{ingress: [{from: [{podSelector: {matchExpressions: [{key: a, operator: In, values: [x, y]}]}, namespaceSelector: {matchLabels: {a: b}}}]}]}`, 6},
	} {
		spec := parseSpec(t, tc.spec).Spec
		size := policy.SizeOf(&spec)
		require.Equal(t, tc.items, size.Items, tc.spec)
		require.Equal(t, spec.Size(), size.Bytes)
	}
}

// What is closed isolates whom it isolated, or more, allows nothing, and says why;
// nothing of what it was stays in memory through it.
func TestClose(t *testing.T) {
	var many, long strings.Builder
	for i := range policy.SubjectItems + 1 {
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

// Which policies close follows from what there is and not from its order, they are
// the largest, no more than necessary, and one namespace costs another nothing.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawPolicies(t)
		closed := map[string]bool{}
		for i, np := range small.Fit(list) {
			require.Equal(t, list[i].Name, np.Name)
			closed[np.Name] = policy.Excess(&np.Spec) != ""
			require.Equal(t, closed[np.Name], np != list[i], "what is not closed is the object itself")
		}
		for _, np := range small.Fit(rapid.Permutation(list).Draw(t, "order")) {
			require.Equal(t, closed[np.Name], policy.Excess(&np.Spec) != "")
		}
		for _, ns := range []string{"x", "y"} {
			of := slices.DeleteFunc(slices.Clone(list), func(np *networkingv1.NetworkPolicy) bool { return np.Namespace != ns })
			for _, np := range small.Fit(of) {
				require.Equal(t, closed[np.Name], policy.Excess(&np.Spec) != "")
			}
			var open policy.Size
			var next policy.Size // the smallest that its namespace closed
			for _, np := range of {
				size := policy.SizeOf(&np.Spec)
				switch {
				case !closed[np.Name]:
					require.Empty(t, small.Excess(size))
					open = open.Add(size)
				case small.Excess(size) == "" && (next == policy.Size{} || size.Compare(next) < 0):
					next = size
				}
			}
			require.True(t, small.Room(open))
			require.True(t, next == policy.Size{} || !small.Room(open.Add(next)))
			for _, np := range of {
				require.False(t, !closed[np.Name] && next != policy.Size{} && policy.SizeOf(&np.Spec).Compare(next) > 0)
			}
		}
	})
}
