package policy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// TestWellFormed checks what every result promises.
func TestWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		np := shape{bad: 10}.policy(t)
		before := np.DeepCopy()
		c := policy.Compile(np)
		if diff := cmp.Diff(before, np); diff != "" {
			t.Fatalf("the policy was changed (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(text(c), text(policy.Compile(before))); diff != "" {
			t.Fatalf("not deterministic:\n%s", diff)
		}
		checkWellFormed(t, c)
	})
}

type failer interface {
	Fatalf(format string, args ...any)
}

func checkWellFormed(t failer, c policy.Policy) {
	var named []ipsets.Name
	rules := map[string]bool{}
	for _, r := range c.Rules {
		if !c.Isolates[r.Direction] {
			t.Fatalf("a rule for a direction that is not isolated:\n%s", text(c))
		}
		for _, line := range ruleTexts(r) {
			if rules[line] || strings.Contains(line, "BAD") || strings.Contains(line, "BOTH") {
				t.Fatalf("a rule is twice or malformed: %s", line)
			}
			rules[line] = true
		}
		for _, p := range r.Peers {
			named = append(named, p.Sets...)
		}
	}
	checkSets(t, named, c.Sets, text(c))
	checkProblems(t, c.Problems)
}

// checkSets: what rules name is defined, and nothing else.
func checkSets(t failer, names []ipsets.Name, sets []policy.SetDef, all string) {
	named := map[ipsets.Name]bool{}
	for _, n := range names {
		named[n] = true
	}
	for i, s := range sets {
		if i > 0 && ipsets.Compare(sets[i-1].Name, s.Name) >= 0 {
			t.Fatalf("sets are not sorted or one is twice:\n%s", all)
		}
		if !fits(s) {
			t.Fatalf("the definition does not fit the kind: %s", setText(s))
		}
		for _, m := range s.Members {
			named[m] = true
		}
	}
	for _, s := range sets {
		if !named[s.Name] {
			t.Fatalf("nobody names set %s:\n%s", s.Name, all)
		}
		delete(named, s.Name)
	}
	if len(named) > 0 {
		t.Fatalf("named and not defined: %v\n%s", named, all)
	}
}

// fits reports whether a definition has what its kind has, and nothing else.
func fits(s policy.SetDef) bool {
	return (len(s.Members) > 0) == (s.Name.Kind() == ipsets.KindNestedLabel) &&
		(s.Pods != nil) == (s.Name.Kind() == ipsets.KindPodSelector) &&
		(s.Namespaces != nil) == (s.Name.Kind() == ipsets.KindNamespaceSelector) &&
		(s.Nodes != nil) == (s.Name.Kind() == ipsets.KindNodes) &&
		(len(s.Blocks) > 0) == (s.Name.Kind() == ipsets.KindInBlocks)
}

func checkProblems(t failer, problems []policy.Problem) {
	for _, p := range problems {
		if line := p.Field + p.Message; p.Field == "" || p.Message == "" || strings.ContainsAny(line, "\r\n") {
			t.Fatalf("a problem is no line: %q", line)
		}
	}
}

// TestOrderDoesNotMatter shuffles and repeats what has no order in the API.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		np := shape{bad: 15}.policy(t)
		shuffled := np.DeepCopy()
		shuffle(t, shuffled)
		if diff := cmp.Diff(meaning(np), meaning(shuffled)); diff != "" {
			t.Fatalf("order changed the result (-as written +shuffled):\n%s", diff)
		}
	})
}

// meaning is all of the result but the problems, whose paths follow the text.
func meaning(np *networkingv1.NetworkPolicy) string {
	c := policy.Compile(np)
	c.Problems = nil
	return text(c)
}

func shuffle(t *rapid.T, np *networkingv1.NetworkPolicy) {
	selector(t, &np.Spec.PodSelector)
	for i := range np.Spec.Ingress {
		peers(t, np.Spec.Ingress[i].From)
		again(t, &np.Spec.Ingress[i].Ports)
	}
	for i := range np.Spec.Egress {
		peers(t, np.Spec.Egress[i].To)
		again(t, &np.Spec.Egress[i].Ports)
	}
	again(t, &np.Spec.PolicyTypes)
}

func peers(t *rapid.T, list []networkingv1.NetworkPolicyPeer) {
	for i := range list {
		for _, s := range []*metav1.LabelSelector{list[i].PodSelector, list[i].NamespaceSelector} {
			if s != nil {
				selector(t, s)
			}
		}
		if list[i].IPBlock != nil {
			again(t, &list[i].IPBlock.Except)
		}
	}
}

// selector also says matchLabels as expressions.
func selector(t *rapid.T, s *metav1.LabelSelector) {
	for k, v := range s.MatchLabels {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: k, Operator: metav1.LabelSelectorOpIn, Values: []string{v, v},
		})
	}
	if rapid.Bool().Draw(t, "expressions only") {
		s.MatchLabels = nil
	}
	for i := range s.MatchExpressions {
		again(t, &s.MatchExpressions[i].Values)
	}
	again(t, &s.MatchExpressions)
}

// again repeats an element, turns nil into empty and back, and shuffles.
func again[T any](t *rapid.T, list *[]T) {
	if len(*list) == 0 {
		if *list == nil {
			*list = []T{}
		} else {
			*list = nil
		}
		return
	}
	out := append(slices.Clone(*list), pick(t, *list, "again"))
	*list = rapid.Permutation(out).Draw(t, "order")
}

// FuzzCompile: whatever an API server can store, Compile answers.
func FuzzCompile(f *testing.F) {
	for i := range 20 {
		np := rapid.Custom(shape{bad: 3}.policy).Example(i)
		if data, err := json.Marshal(np); err == nil { // not every malformed object has a JSON
			f.Add(data)
		}
	}
	f.Add([]byte(`{"spec":{"ingress":[null],"egress":[{"to":[null],"ports":[null]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var np networkingv1.NetworkPolicy
		if json.Unmarshal(data, &np) != nil {
			t.Skip("not a NetworkPolicy")
		}
		c := policy.Compile(&np)
		if fmt.Sprint(c.Key) != np.Namespace+"/"+np.Name {
			t.Fatalf("key %s", c.Key)
		}
		checkWellFormed(t, c)
	})
}
