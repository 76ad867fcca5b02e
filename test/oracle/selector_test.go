package oracle

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Selectors that differ in anything have different texts, so that none is taken for
// another one, and one that was changed is read anew.
func TestSelectorsByText(t *testing.T) {
	t.Parallel()
	expression := func(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	expressions := func(list ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: list}
	}
	all := []*metav1.LabelSelector{
		nil, {},
		{MatchLabels: map[string]string{"a": "b"}},
		{MatchLabels: map[string]string{"b": "a"}},
		{MatchLabels: map[string]string{"a": `b","c":"d`}},
		{MatchLabels: map[string]string{"a": "b", "c": "d"}},
		expressions(expression("a", metav1.LabelSelectorOpExists)),
		expressions(expression("a", metav1.LabelSelectorOpDoesNotExist)),
		expressions(expression("a", metav1.LabelSelectorOpExists, "")),
		expressions(expression("a", metav1.LabelSelectorOpIn, "b", "c")),
		expressions(expression("a", metav1.LabelSelectorOpIn, `b","c`)),
		expressions(expression("a", metav1.LabelSelectorOpNotIn, "b", "c")),
		expressions(expression("a", metav1.LabelSelectorOpExists), expression("b", metav1.LabelSelectorOpExists)),
		{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []metav1.LabelSelectorRequirement{expression("a", metav1.LabelSelectorOpExists)}},
		expressions(expression("a", "Unheard")),
	}
	texts := map[string]int{}
	for i, selector := range all {
		text := textOf(selector)
		require.NotContains(t, texts, text, "%d and %d", i, texts[text])
		texts[text] = i
		for range 2 { // read, and taken from where it was kept
			is, err := read(selector)
			want, wantErr := metav1.LabelSelectorAsSelector(selector)
			require.Equal(t, wantErr, err)
			require.Equal(t, want, is)
		}
	}

	changed := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	require.True(t, matches(changed, labels.Set{"a": "b"}))
	changed.MatchLabels["a"] = "c"
	require.False(t, matches(changed, labels.Set{"a": "b"}))
}
