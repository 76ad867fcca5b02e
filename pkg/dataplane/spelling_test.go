package dataplane_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// TestSetsInHNSsOwnSpelling: nothing is written because HNS shows what was sent in
// its own way, nobody is blamed, and a new process writes each set once at most.
func TestSetsInHNSsOwnSpelling(t *testing.T) {
	for _, tc := range []struct {
		show     func(string) string
		spelling []state.SpellingSeen
	}{
		{func(v string) string { return v + "/32" }, nil},
		{func(v string) string { return strings.ReplaceAll(v, "10.0.", "010.000.") }, []state.SpellingSeen{
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
		inHNS := slices.DeleteFunc(w.dp.Dump().Sets, func(s state.SetDump) bool { return !s.InHNS })
		require.Len(t, n.Sets, len(inHNS))

		w.do("restart", "namespace x", "pod x/w 10.0.0.1", "pod x/a 10.0.1.1 app=api remote", bGood, "apply")
		require.LessOrEqual(t, w.report.Calls["SetPolicy/Update"], 1)
		require.Zero(t, look())
		require.Len(t, w.dp.Spellings(), len(tc.spelling))
	}
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
