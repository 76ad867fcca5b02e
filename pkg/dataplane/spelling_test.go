package dataplane_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestSetsInHNSsOwnSpelling: nothing is written because HNS shows what was sent in
// its own way, nobody is blamed, and a new process writes each set once at most.
func TestSetsInHNSsOwnSpelling(t *testing.T) {
	for _, tc := range []struct {
		show     func(string) string
		spelling []state.Spelling
	}{
		{func(v string) string { return v + "/32" }, nil},
		{func(v string) string { return strings.ReplaceAll(v, "10.0.", "010.000.") }, []state.Spelling{
			{Kind: "set", Object: "ns-x", Sent: "10.0.0.1,10.0.1.1", Shown: "010.000.0.1,010.000.1.1"},
			{Kind: "set", Object: "podlabel-app:api", Sent: "10.0.1.1", Shown: "010.000.1.1"},
		}},
	} {
		w := newWorld(t)
		w.sim.SetPersonality(hnsfault.Personality{Show: func(_ string, out *hns.Result) {
			for _, p := range out.Network.Sets {
				for i, v := range p.Values {
					if p.Type == hns.IPSet {
						p.Values[i] = tc.show(v)
					}
				}
			}
		}})
		w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "pod x/a 10.0.1.1 app=api remote", bGood, "apply")
		look := func() (writes int) {
			for range 24 {
				w.do("wait 5m", "observe", "apply")
				writes += w.writes()
				require.Empty(t, w.report.Warnings)
			}
			require.True(t, w.report.Converged())
			return writes
		}
		require.Zero(t, look())
		require.ElementsMatch(t, tc.spelling, w.dp.Spellings())
		require.Zero(t, w.dp.Stats().DriftFound["set"])

		n, err := w.sim.Network(t.Context())
		require.NoError(t, err)
		inHNS := slices.DeleteFunc(w.dp.Dump().Sets, func(s state.Set) bool { return !s.InHNS })
		require.Len(t, n.Sets, len(inHNS))

		w.do("restart", "namespace x", "pod x/w 10.0.0.1", "pod x/a 10.0.1.1 app=api remote", bGood, "apply")
		require.LessOrEqual(t, w.report.Calls["SetPolicy/Update"], 1)
		require.Zero(t, look())
		require.Len(t, w.dp.Spellings(), len(tc.spelling))
	}
}

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

func onCalico(cfg *dataplane.Config) { cfg.BaseACLs = acl.CalicoBase() }

// The rules are what the predecessor has, so that replacing it costs nothing:
// priorities of the Host rules are left out, as HNS wants none there.
func TestCalicoBaseOnTheWire(t *testing.T) {
	want := []string{
		`{"Id":"azure-acl-baseazurewireserver","Protocols":"6","Action":"Block","Direction":"Out","RemoteAddresses":"168.63.129.16/32","RemotePorts":"80","RuleType":"Switch","Priority":200}`,
		`{"Id":"azure-acl-baseallowinswitch","Action":"Allow","Direction":"In","RuleType":"Switch","Priority":65499}`,
		`{"Id":"azure-acl-baseallowoutswitch","Action":"Allow","Direction":"Out","RuleType":"Switch","Priority":65499}`,
		`{"Id":"azure-acl-baseallowinhost","Action":"Allow","Direction":"In","RuleType":"Host"}`,
		`{"Id":"azure-acl-baseallowouthost","Action":"Allow","Direction":"Out","RuleType":"Host"}`,
	}
	for i, a := range acl.CalicoBase() {
		got, err := json.Marshal(a)
		require.NoError(t, err)
		require.Equal(t, want[i], string(got))
	}
}
