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
			fits = fits && !ep.Next.Exposed && (ep.Pod == "" || sameRules(ep.Applied, ep.Wanted))
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

// sameRules reports whether two lists have the same rules, in whatever order.
func sameRules(a, b []hns.ACL) bool {
	count := map[hns.ACL]int{}
	for _, rule := range a {
		count[rule]++
	}
	for _, rule := range b {
		if count[rule]--; count[rule] < 0 {
			return false
		}
	}
	return len(a) == len(b)
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
