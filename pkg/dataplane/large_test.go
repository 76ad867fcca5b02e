package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// manyPeers is a policy on the pods of a label, app=web or w00, with so many rules.
func manyPeers(name, app string, peers int) string {
	var from strings.Builder
	for i := range peers {
		fmt.Fprintf(&from, "{podSelector: {matchLabels: {peer: p%d}}},", i)
	}
	return fmt.Sprintf("policy x/%s {podSelector: {matchLabels: {app: %s}}, ingress: [{from: [%s]}]}", name, app, from.String())
}

// TestManyPeers: an endpoint takes a few requests, however many rules it has, and one
// that is new is closed by the first.
func TestManyPeers(t *testing.T) {
	for _, peers := range []int{200, 2000}[:effort.Of(1, 2)] {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d, running=%t", peers, running), func(t *testing.T) {
				w := newWorld(t)
				w.do("namespace x", "endpoint ep 10.0.0.4", "pod x/web 10.0.0.4 app=web")
				want := map[string]int{hns.OpACLUpdate: 1, hns.OpEndpointGet: 2}
				if running {
					w.do("apply")
				} else { // the first read serves the block, which is read after
					want = map[string]int{hns.OpACLAdd: 1, hns.OpACLUpdate: 1, hns.OpEndpointGet: 2 + 2}
				}
				all := w.writesTo("ep")
				w.sim.ResetCalls()
				w.do(manyPeers("p", "web", peers), "apply")
				require.True(t, w.report.Converged())
				for op, n := range want {
					require.Equal(t, n, w.sim.Counts()[op], op)
				}
				require.Len(t, *all, want[hns.OpACLAdd]+1)
				if !running {
					require.Equal(t, []string{"azure-acl-npm-block-in"}, (*all)[0])
				}
				w.do("trace 10.9.9.9 -> 10.0.0.4 TCP/80 ep in block")
			})
		}
	}
}

// TestTurnEndsWithinAnEndpoint: a transaction may end between the block and the rules of one endpoint,
// the next one goes on with it, and a pod that is new is closed throughout.
func TestTurnEndsWithinAnEndpoint(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x")
	for i := range 2 {
		w.do(fmt.Sprintf("endpoint ep-%02d 10.0.1.%d", i, i+1))
		w.pod0(i, "")
	}
	w.do(manyPeers("big", "w00", 100))
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if when == hnsfault.After && c.Target == "ep-00" && c.Op == hns.OpACLAdd {
			w.do("trace 10.9.9.9 -> 10.0.1.1 TCP/80 ep-00 in block")
		}
	})
	require.Equal(t, []string{"ep-00"}, w.turns(2), "it is asked between the reads, and after the write")
	require.False(t, w.report.Converged())
	w.do(`policy x/one {podSelector: {matchLabels: {app: w01}}, ingress: [{ports: [{port: 443}]}]}`)
	var order []string
	for range 2 {
		order = append(order, w.turns(yieldEach)...)
	}
	require.Equal(t, []string{"ep-00", "ep-01"}, order, "in the order in which they joined: both are of one namespace")
	require.True(t, w.report.Converged())
}

// TestAddsWhereNoUpdateWorks: where HNS takes no Update, many rules come with Adds, as a bisection
// adds what it tests.
func TestAddsWhereNoUpdateWorks(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.4", "pod x/web 10.0.0.4 app=web", "apply")
	w.sim.Inject(hnsfault.Fault{Op: hns.OpACLUpdate, Target: "ep", Times: -1, Code: 0x803B000D})
	w.do(manyPeers("p", "web", 40))
	_ = w.apply()
	require.Len(t, w.rulesOf("ep"), 41)
	require.True(t, w.report.Converged())
}
