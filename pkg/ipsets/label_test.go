package ipsets

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSetsOfPod: the sets that are visited for a pod are those that are
// defined, whatever came and went before.
func TestSetsOfPod(t *testing.T) {
	names := []Name{PodLabelKey("a"), PodLabel("a", ""), PodLabel("a", "x"), PodLabel("a", "y"), PodLabelKey("b"), Namespace("a"), Namespace("a").Deny(), Namespace("b"), PodLabelKey("a").Deny()}
	rapid.Check(t, func(t *rapid.T) {
		c, held := NewCache(), map[Name]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"hold": func(t *rapid.T) {
				n := rapid.SampledFrom(names).Draw(t, "set")
				c.Hold(n, rule)
				held[n] = true
			},
			"release": func(t *rapid.T) {
				if n := rapid.SampledFrom(names).Draw(t, "set"); held[n] {
					c.Release(n, rule)
					delete(held, n)
				}
			},
			"": func(t *rapid.T) {
				for _, value := range []string{"", "x", "z"} {
					var want, got []Name
					for n := range held {
						if hasPod(n, "a", map[string]string{"a": value}) {
							want = append(want, n)
						}
					}
					c.EachOfPod("a", map[string]string{"a": value}, func(n Name) { got = append(got, n) })
					require.ElementsMatch(t, want, got)
				}
			},
		})
	})
}

// hasPod reports whether pods of a namespace with these labels are in a set of a label, or of a namespace.
func hasPod(n Name, namespace string, labels map[string]string) bool {
	key, value, exact := strings.Cut(n.Text(), ":")
	have, has := labels[key]
	return n.Kind() == KindNamespace && n.Text() == namespace || n.Kind() == KindPodLabel && has && (!exact || have == value)
}
