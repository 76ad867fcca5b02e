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

// selector is a label selector in normal form: In and NotIn of one value are = and !=; values and
// requirements are sorted, without duplicates. The nil selector matches everything.
type selector []labels.Requirement

// text returns the canonical text, in the form that kubectl uses. Keys and values are valid, so
// selectors with equal texts have the same meaning.
func (s selector) text() string {
	parts := make([]string, len(s))
	for i := range s {
		parts[i] = s[i].String()
	}
	return strings.Join(parts, ",")
}

func (s selector) matcher() LabelMatcher { return matcher{labels.NewSelector().Add(s...)} }

// matcher implements LabelMatcher. Matches does not allocate.
type matcher struct{ selector labels.Selector }

// Matches reports whether the labels match.
func (m matcher) Matches(l map[string]string) bool { return m.selector.Matches(labels.Set(l)) }

// String returns the selector in the form that kubectl uses. It is empty if the selector matches
// everything.
func (m matcher) String() string { return m.selector.String() }

// operators maps the operators of the API. Package labels has more.
var operators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn:           selection.In,
	metav1.LabelSelectorOpNotIn:        selection.NotIn,
	metav1.LabelSelectorOpExists:       selection.Exists,
	metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

// selector returns sel in normal form. If a part of sel is malformed, it notes each malformed part,
// with the consequence, and reports false.
func (c *compiler) selector(sel *metav1.LabelSelector, at *field.Path, consequence string) (selector, bool) {
	var out selector
	found := c.out.Found[c.malformed]
	// Sorted, so that the order of problems is stable.
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

// sorted sorts requirements and removes duplicates, in place.
func sorted(reqs []labels.Requirement) selector {
	slices.SortFunc(reqs, func(a, b labels.Requirement) int {
		return cmp.Or(cmp.Compare(a.Key(), b.Key()), cmp.Compare(a.String(), b.String()))
	})
	return slices.CompactFunc(reqs, labels.Requirement.Equal)
}

// requirement returns a requirement in normal form, or the errors in it, with paths that start at
// the requirement.
func requirement(key string, op selection.Operator, values []string) (labels.Requirement, []*field.Error) {
	req, err := labels.NewRequirement(key, op, values)
	if err == nil {
		values = slices.Compact(slices.Sorted(slices.Values(values)))
		switch {
		case op == selection.In && len(values) == 1:
			op = selection.Equals
		case op == selection.NotIn && len(values) == 1:
			op = selection.NotEquals
		}
		req, err = labels.NewRequirement(key, op, values)
	}
	if err != nil {
		return labels.Requirement{}, fieldErrors(err)
	}
	return *req, nil
}

// fieldErrors returns the single errors of a result of labels.NewRequirement.
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

// negative reports whether the selector has a negative term, such as != or NotIn.
func (s selector) negative() bool {
	return slices.ContainsFunc(s, func(r labels.Requirement) bool {
		op := r.Operator()
		return op == selection.NotIn || op == selection.NotEquals || op == selection.DoesNotExist
	})
}
