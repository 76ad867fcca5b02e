package gen

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// vocabulary is the keys and values of labels.
type vocabulary map[string][]string

var (
	podLabels       = vocabulary{"app": {"v1", "v2", "v3"}, "tier": {"f", "g"}, "w.io/x": {"", "v1"}}
	namespaceLabels = vocabulary{"team": {"r", "s"}, "stage": {"v1", "v2", ""}}
	operators       = []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
	}
)

func (v vocabulary) keys() []string { return slices.Sorted(maps.Keys(v)) }

func (g *Gen) labels(v vocabulary) map[string]string {
	labels := map[string]string{}
	for _, key := range v.keys() {
		if !g.oneIn(4, "no label") {
			labels[key] = pick(g, v[key], key)
		}
	}
	return labels
}

// selector draws a selector over the vocabulary; an empty one is likely.
func (g *Gen) selector(v vocabulary) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	kind := g.between(0, 7, "selector") // 0 and 1: empty
	if 2 <= kind && kind <= 4 {
		for range g.between(1, 2, "labels") {
			key := pick(g, v.keys(), "key")
			metav1.AddLabelToSelector(s, key, pick(g, v[key], "value"))
		}
	}
	for range []int{0, 0, 0, 0, 1, 1, 1, 2}[kind] {
		r := metav1.LabelSelectorRequirement{Key: pick(g, v.keys(), "key"), Operator: pick(g, operators, "operator")}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = few(g, 3, "values", func() string { return pick(g, v[r.Key], "value") }) // may have duplicates
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	if g.oneIn(16, "malformed selector") {
		s.MatchExpressions = append(s.MatchExpressions, pick(g, malformed, "defect"))
		if g.oneIn(6, "malformed label") {
			s = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "v1:v2"}}
		}
	}
	return s
}

// malformed are requirements that the API server rejects.
var malformed = []metav1.LabelSelectorRequirement{
	{Key: "app", Operator: "Like", Values: []string{"v1"}},
	{Key: "app", Operator: metav1.LabelSelectorOpIn},
	{Key: "app", Operator: metav1.LabelSelectorOpExists, Values: []string{"v1"}},
	{Key: "-", Operator: metav1.LabelSelectorOpDoesNotExist},
	{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"no value"}},
}
