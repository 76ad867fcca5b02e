package dataplane_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIdleClusterPolicy: while ClusterNetworkPolicies select only pods of other nodes, or pods without
// an address, they need no set in the agent or in HNS, and cause no write. They get their sets when
// they select a local pod, and lose them when that pod is gone.
func TestIdleClusterPolicy(t *testing.T) {
	for _, end := range []string{"delete pod z/w", "pod z/w 10.0.0.2 finished", "namespace z team=x", "delete cluster admin"} {
		t.Run(end, func(t *testing.T) {
			w := newWorld(t)
			w.do("namespace x", "namespace a team=a", "namespace b team=b", "namespace z team=z", "endpoint other 10.0.0.1", "endpoint ep 10.0.0.2", "pod x/w 10.0.0.1",
				"pod a/q 10.0.1.7 app=a port=http:80 remote", "pod z/elsewhere 10.0.3.1 remote", "pod z/starts -", movedAdmin, movedBase,
				"peer n 10.0.1.9 role=db", "apply", "calls", movedAdmin, movedBase, "pod a/q 10.0.1.8 app=a port=http:81 remote", "apply", "calls")
			require.Empty(t, w.dp.Dump().Sets)
			require.Empty(t, w.sim.Sets())

			w.do("pod z/w 10.0.0.2", "apply")
			require.Contains(t, holders(w, "deny-namedport:http:TCP:81"), "rule ep")
			require.Contains(t, holders(w, "deny-podlabel-app:a"), "selector cluster/.admin")
			w.do(end, "apply")
			for _, s := range w.dp.Dump().Sets {
				require.NotContains(t, strings.Join(s.Holders, " "), "selector cluster/.admin", s.Name)
			}
		})
	}
}
