package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// selector is a label selector in normal form: In and NotIn of one value are
// = and !=, values and requirements are sorted and occur once. The nil selector
// matches everything.
type selector []labels.Requirement

// text is the canonical text, as kubectl writes selectors. Keys and values are
// valid, so that two selectors of one text mean the same.
func (s selector) text() string {
	parts := make([]string, len(s))
	for i := range s {
		parts[i] = s[i].String()
	}
	return strings.Join(parts, ",")
}

func (s selector) matcher() LabelMatcher { return matcher{labels.NewSelector().Add(s...)} }

// matcher answers for plain label maps, without allocating.
type matcher struct{ selector labels.Selector }

// Matches reports whether the labels match.
func (m matcher) Matches(l map[string]string) bool { return m.selector.Matches(labels.Set(l)) }

// String returns the selector as kubectl writes it; empty for everything.
func (m matcher) String() string { return m.selector.String() }

// operators are those of the API; package labels knows more.
var operators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn:           selection.In,
	metav1.LabelSelectorOpNotIn:        selection.NotIn,
	metav1.LabelSelectorOpExists:       selection.Exists,
	metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

// selector brings sel into normal form. If a part of sel is malformed it
// reports false and notes each malformed part, with the consequence.
func (c *compiler) selector(sel *metav1.LabelSelector, at *field.Path, consequence string) (selector, bool) {
	var out selector
	found := c.out.Found[c.malformed]
	// Sorted, because the order of problems must not be that of a map.
	for _, key := range slices.Sorted(maps.Keys(sel.MatchLabels)) {
		req, wrong := requirement(key, selection.In, []string{sel.MatchLabels[key]})
		for _, e := range wrong {
			c.wrongSelector(at.Child("matchLabels"), consequence, "%s", e.ErrorBody())
		}
		out = append(out, req)
	}
	for i, expr := range sel.MatchExpressions {
		here := at.Child("matchExpressions").Index(i)
		op, ok := operators[expr.Operator]
		if !ok {
			c.wrongSelector(here.Child("operator"), consequence,
				"unknown operator %q, use In, NotIn, Exists or DoesNotExist", expr.Operator)
			continue
		}
		req, wrong := requirement(expr.Key, op, expr.Values)
		for _, e := range wrong {
			// Package labels adds the key to the path of a value; the API does not.
			c.wrongSelector(here.Child(strings.TrimSuffix(e.Field, "["+expr.Key+"]")), consequence, "%s", e.ErrorBody())
		}
		out = append(out, req)
	}
	if c.out.Found[c.malformed] > found {
		return nil, false
	}
	return sorted(out), true
}

func (c *compiler) wrongSelector(at *field.Path, consequence, format string, args ...any) {
	c.problem(c.malformed, at, "%s; %s", fmt.Sprintf(format, args...), consequence)
}

// sorted puts requirements into their order, each once; it uses their memory.
func sorted(reqs []labels.Requirement) selector {
	slices.SortFunc(reqs, func(a, b labels.Requirement) int {
		return cmp.Or(cmp.Compare(a.Key(), b.Key()), cmp.Compare(a.String(), b.String()))
	})
	return slices.CompactFunc(reqs, labels.Requirement.Equal)
}

// requirement makes one requirement in normal form, or says what is wrong with
// it in paths that start at the requirement.
func requirement(key string, op selection.Operator, values []string) (labels.Requirement, []*field.Error) {
	if _, err := labels.NewRequirement(key, op, values); err != nil {
		return labels.Requirement{}, fieldErrors(err)
	}
	values = slices.Compact(slices.Sorted(slices.Values(values)))
	switch {
	case op == selection.In && len(values) == 1:
		op = selection.Equals
	case op == selection.NotIn && len(values) == 1:
		op = selection.NotEquals
	}
	req, err := labels.NewRequirement(key, op, values)
	return *req, fieldErrors(err)
}

// fieldErrors takes apart what labels.NewRequirement returns.
func fieldErrors(err error) []*field.Error {
	var list utilerrors.Aggregate
	if !errors.As(err, &list) {
		return nil
	}
	var out []*field.Error
	for _, e := range list.Errors() {
		var one *field.Error
		if errors.As(e, &one) {
			out = append(out, one)
		}
	}
	return out
}

// negative reports whether a term says what labels must not be.
func (s selector) negative() bool {
	return slices.ContainsFunc(s, func(r labels.Requirement) bool {
		op := r.Operator()
		return op == selection.NotIn || op == selection.NotEquals || op == selection.DoesNotExist
	})
}
