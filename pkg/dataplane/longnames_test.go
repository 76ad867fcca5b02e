package dataplane_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// longPolicy names a set of each kind whose name may be longer than sets are called: of
// pods that are not of many versions, of pods of one of many, and of namespaces.
func longPolicy() string {
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf("version-%d", i))
	}
	term := func(key, op string) string {
		return fmt.Sprintf(`matchExpressions: [{key: %s, operator: %s, values: [%s]}]`, key, op, strings.Join(many, ", "))
	}
	return `policy x/long {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {` + term("v", "NotIn") + `}}, ` +
		`{podSelector: {` + term("w", "In") + `}}, {namespaceSelector: {` + term("team", "NotIn") + `}}]}]}`
}

// longObjects tells a dataplane of the state, and of the policies.
func longObjects(w *world, policies ...string) {
	w.do("namespace x team=version-1", "namespace y team=a", "pod x/web 10.0.0.1 app=web",
		"pod x/good 10.0.1.1 v=none remote", "pod x/bad 10.0.1.2 v=version-7 remote", "pod x/two 10.0.1.3 v=version-7 w=version-9 remote",
		"pod y/far 10.0.1.4 v=version-7 remote")
	w.do(policies...)
}

const (
	goodIn = "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-1 in allow"
	badOut = "trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep-1 in block"
	twoIn  = "trace 10.0.1.3 -> 10.0.0.1 TCP/80 ep-1 in allow"
	farIn  = "trace 10.0.1.4 -> 10.0.0.1 TCP/80 ep-1 in allow"
)

// longWorld is a node where the policy is in force, in an HNS that takes no longer
// names than the predecessor gives.
func longWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.sim = hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()})
	w.sim.RejectSet(func(s hns.SetPolicy) bool { return len(s.Name) > ipsets.MaxName })
	w.do("restart", "endpoint ep-1 10.0.0.1")
	longObjects(w, longPolicy())
	w.do("apply", goodIn, badOut, twoIn, farIn)
	return w
}

// viewed checks that a dump tells what HNS calls each set.
func viewed(t *testing.T, w *world) {
	t.Helper()
	is := setsByName(w.sim)
	for _, s := range w.dp.Dump().Sets {
		if s.InHNS {
			require.Equal(t, s.ID, is[cmp.Or(s.Called, s.Name)].ID)
			delete(is, cmp.Or(s.Called, s.Name))
		}
	}
	require.Empty(t, is)
}

// longNames are those of the sets of a dump, as they are and as HNS calls them where
// that is something else.
func longNames(d state.Dump) map[string]string {
	out := map[string]string{}
	for _, s := range d.Sets {
		if s.Called != "" {
			out[s.Name] = s.Called
		}
	}
	return out
}

// TestLongNames: HNS never sees a name that is longer than MaxName; a new process finds
// such sets again, writes nothing, and goes on with them.
func TestLongNames(t *testing.T) {
	w := longWorld(t)
	require.Len(t, longNames(w.dp.Dump()), 3)
	before := w.sim.Dump()
	w.do("restart")
	longObjects(w, longPolicy())
	w.do("apply", "calls")
	require.Empty(t, gocmp.Diff(before, w.sim.Dump()))
	viewed(t, w)
	w.do("pod x/good 10.0.1.1 v=version-3 remote", "apply", "calls SetPolicy/Update=1", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-1 in block")
	w.do("namespace y team=version-2", "apply", "trace 10.0.1.4 -> 10.0.0.1 TCP/80 ep-1 in block")

	w.do("delete policy x/long", "apply", "restart", "apply")
	w.settle()
	require.Empty(t, w.sim.Sets(), "what nobody names goes under the name that it has")
}

// TestLongNamesLeftOver: of a policy that went while no process ran its cut names do not
// tell what belongs into the sets. They keep what they have, but for the leaves of nested
// ones, which are fed, until the rules that name them are gone, with the next Update.
func TestLongNamesLeftOver(t *testing.T) {
	w := longWorld(t)
	w.do("restart")
	longObjects(w)
	w.do("fault ACL/Update * refuse", "! apply", goodIn, badOut, twoIn, farIn)
	w.do("pod x/two 10.0.1.3 v=version-7 remote", "pod y/far 10.0.1.9 remote", "wait 10m", "fault ACL/Update * refuse", "! apply",
		"trace 10.0.1.3 -> 10.0.0.1 TCP/80 ep-1 in block", "trace 10.0.1.9 -> 10.0.0.1 TCP/80 ep-1 in allow")
	w.do("wait 10m")
	w.settle()
	w.do("wait 10m", "apply")
	require.Empty(t, w.sim.Sets())
}
