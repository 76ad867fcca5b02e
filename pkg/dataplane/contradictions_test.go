package dataplane_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// contradictions returns the endpoints of a dump whose state does not fit the rest that it
// says of them, as it has to between two transactions.
func contradictions(d state.Dump) (all []string) {
	pending := map[string]bool{}
	for _, p := range d.Pending {
		pending[p.Endpoint] = true
	}
	for _, ep := range d.Endpoints {
		settled := !pending[ep.ID]
		fits := ep.Known == (ep.Next.Version != "") && ep.Known == (len(ep.Maybe) == 0) && settled == (ep.Next.Turn == 0)
		switch {
		case !ep.Known:
			fits = fits && len(ep.Applied) == 0 && settled == (ep.Pod == "")
		case settled: // a pending one may turn out to be right
			fits = fits && !ep.Next.Exposed && (ep.Pod == "" || inForce(d, ep))
		default:
			fits = fits && ep.Pod != ""
		}
		if !fits {
			all = append(all, fmt.Sprintf("%s: settled %t, known %t, version %q, turn %d, pod %q, exposed %t, %d lists, applied %v, wanted %v",
				ep.ID, settled, ep.Known, ep.Next.Version, ep.Next.Turn, ep.Pod, ep.Next.Exposed, len(ep.Maybe), ep.Applied, ep.Wanted))
		}
	}
	return all
}

// inForce reports whether an endpoint has the rules that it should have, in whatever order. A
// rule that matches nothing, of a number of a named port that no pod serves any more, may
// stay until the next Update, but not in a list of tiers.
func inForce(d state.Dump, ep state.Endpoint) bool {
	missing := map[hns.ACL]int{}
	for _, rule := range ep.Wanted {
		missing[rule]++
	}
	for _, rule := range ep.Applied {
		if missing[rule] > 0 {
			missing[rule]--
		} else if len(ep.Tiers) > 0 || rule.Action != hns.Allow || !matchesNobody(d, rule) {
			return false
		}
	}
	for _, n := range missing {
		if n > 0 {
			return false
		}
	}
	return true
}

// matchesNobody reports whether the sets that a rule names have no address in common. One
// that names none matches everybody, and of a set that the dump lacks nobody can tell.
func matchesNobody(d state.Dump, rule hns.ACL) bool {
	byID, byName := map[string]state.Set{}, map[string]state.Set{}
	for _, s := range d.Sets {
		byID[s.ID], byName[s.Name] = s, s
	}
	ids := rule.SetIDs()
	in := map[string]int{} // address → how many of the sets have it
	for _, id := range ids {
		s, known := byID[id]
		if !known {
			return false
		}
		addrs := map[string]bool{}
		for _, m := range s.Members {
			leaf, nested := byName[m]
			if !nested {
				addrs[m] = true
			}
			for _, addr := range leaf.Members {
				addrs[addr] = true
			}
		}
		for addr := range addrs {
			in[addr]++
		}
	}
	for _, n := range in {
		if n == len(ids) {
			return false
		}
	}
	return len(ids) > 0
}

// TestContradictions: each thing that cannot be is found.
func TestContradictions(t *testing.T) {
	rule := []hns.ACL{{ID: "a"}}
	waits := []state.Pending{{Endpoint: "e"}}
	for name, d := range map[string]state.Dump{
		"settled with a turn":       {Endpoints: []state.Endpoint{{ID: "e", Known: true, Next: state.Next{Version: "v", Turn: 1}}}},
		"pending without a turn":    {Pending: waits, Endpoints: []state.Endpoint{{ID: "e", Known: true, Pod: "x/a", Next: state.Next{Version: "v"}}}},
		"pending for nobody":        {Pending: waits, Endpoints: []state.Endpoint{{ID: "e", Known: true, Next: state.Next{Version: "v", Turn: 1}}}},
		"known without a version":   {Endpoints: []state.Endpoint{{ID: "e", Known: true}}},
		"known and one of several":  {Endpoints: []state.Endpoint{{ID: "e", Known: true, Maybe: [][]hns.ACL{rule}, Next: state.Next{Version: "v"}}}},
		"unknown with a version":    {Endpoints: []state.Endpoint{{ID: "e", Maybe: [][]hns.ACL{rule}, Next: state.Next{Version: "v"}}}},
		"unknown and done":          {Endpoints: []state.Endpoint{{ID: "e", Pod: "x/a", Maybe: [][]hns.ACL{rule}}}},
		"settled with other rules":  {Endpoints: []state.Endpoint{{ID: "e", Known: true, Pod: "x/a", Wanted: rule, Next: state.Next{Version: "v"}}}},
		"settled without its block": {Endpoints: []state.Endpoint{{ID: "e", Known: true, Pod: "x/a", Next: state.Next{Version: "v", Exposed: true}}}},
	} {
		require.Len(t, contradictions(d), 1, name)
	}
	require.Empty(t, contradictions(state.Dump{Endpoints: []state.Endpoint{{ID: "e", Known: true, Pod: "x/a", Applied: rule, Wanted: rule, Next: state.Next{Version: "v"}}}}))
}

// TestContradictionsOfUnusedPorts: a settled endpoint has one rule more than it should have
// only where that matches nobody.
func TestContradictionsOfUnusedPorts(t *testing.T) {
	sets := []state.Set{
		{ID: "azure-npm-web", Name: "web", Members: []string{"10.0.0.1", "10.0.0.2"}},
		{ID: "azure-npm-port", Name: "port", Members: []string{"10.0.0.3"}},
		{ID: "azure-npm-all", Name: "all", Members: []string{"web", "port"}},
		{ID: "azure-npm-none", Name: "none"},
	}
	for name, tt := range map[string]struct {
		remote string
		action hns.Action
		tiers  []state.TierRule
		stays  bool
	}{
		"nobody in it":      {"azure-npm-none", hns.Allow, nil, true},
		"nobody in both":    {"azure-npm-web,azure-npm-port", hns.Allow, nil, true},
		"through a nested":  {"azure-npm-all,azure-npm-port", hns.Allow, nil, false},
		"somebody in it":    {"azure-npm-web", hns.Allow, nil, false},
		"no set at all":     {"", hns.Allow, nil, false},
		"a set nobody has":  {"azure-npm-other", hns.Allow, nil, false},
		"one that blocks":   {"azure-npm-none", hns.Block, nil, false},
		"a list with tiers": {"azure-npm-none", hns.Allow, []state.TierRule{{}}, false},
	} {
		d := state.Dump{Sets: sets, Endpoints: []state.Endpoint{{
			ID: "e", Known: true, Pod: "x/a", Tiers: tt.tiers, Next: state.Next{Version: "v"},
			Applied: []hns.ACL{{ID: "a", Action: tt.action, Direction: hns.Out, RemoteAddresses: tt.remote}},
		}}}
		require.Equal(t, tt.stays, len(contradictions(d)) == 0, name)
	}
}
