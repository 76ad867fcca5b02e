package dataplane_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// narrow and wide are versions of a policy that allows pods in two sets, or in a computed one; wide
// selects all pods.
const (
	narrow = `policy x/p {podSelector: {matchLabels: {role: guarded}}, ` + guardRules
	wide   = `policy x/p {podSelector: {}, ` + guardRules

	guardRules = `ingress: [{from: [{podSelector: {matchLabels: {b: v1}}, namespaceSelector: {matchLabels: {team: a}}}, ` +
		`{podSelector: {matchExpressions: [{key: a, operator: NotIn, values: [v1]}]}}]}]}`
)

// guarded is a node with a pod that only the policy for port 81 selects, and an
// endpoint without a pod.
func guarded(t *testing.T) *world {
	w := newWorld(t)
	w.do("restart grace=1m", "namespace x", "namespace y team=a", "endpoint ep-1 10.0.0.1", "endpoint ep-2 10.0.0.2",
		"pod x/w 10.0.0.1", "pod x/q 10.0.1.1 remote", "pod y/r 10.0.1.2 b=v1 remote", narrow, `policy x/other {podSelector: {}, ingress: [{ports: [{port: 81}]}]}`, "apply")
	return w
}

// TestActivationOpensNoWindow: whatever brings a pod under an idle policy, and takes
// it away, after each single write every verdict is the one before or the one after.
// HNS still has the policy's sets, from when it was active before; meanwhile who is in
// them changed, and nobody wrote that.
func TestActivationOpensNoWindow(t *testing.T) {
	for name, way := range map[string]struct{ there, back string }{
		"label":    {"pod x/w 10.0.0.1 role=guarded", "pod x/w 10.0.0.1"},
		"new pod":  {"pod x/n 10.0.0.2 role=guarded", "delete pod x/n"},
		"selector": {wide, narrow},
		"policy":   {wide, "delete policy x/p"},
	} {
		t.Run(name, func(t *testing.T) {
			w := guarded(t)
			w.do("pod x/w 10.0.0.1 role=guarded", "apply", "pod x/w 10.0.0.1", "apply")
			moved := []string{"pod x/q 10.0.1.1 a=v1 remote", "pod y/r 10.0.1.2 remote", "pod x/s 10.0.1.3 b=v1 remote", "namespace x team=a"}
			w.do(append(moved, "apply", "calls")...)
			require.NotEmpty(t, w.sim.Sets(), "for the grace period")

			all := probes(w.sim, []string{"10.0.1.1", "10.0.1.2", "10.0.1.3"}, 80, 81)
			fresh := guarded(t)
			fresh.do(append(moved, way.there, "apply")...)
			idle, active := verdicts(t, w.sim, all), verdicts(t, fresh.sim, all)
			require.NotEmpty(t, cmp.Diff(idle, active))
			stop := watchI4(t, w.sim, idle, active)
			w.do(way.there, "apply")
			require.Positive(t, stop())
			require.Empty(t, cmp.Diff(active, verdicts(t, w.sim, all)))
			require.Equal(t, []string{"10.0.1.3"}, w.has("podlabel-b:v1"))

			stop = watchI4(t, w.sim, idle, active)
			w.do(way.back, "apply", "wait 1m", "apply")
			require.Positive(t, stop())
			if name != "new pod" { // whose endpoint keeps what it has
				require.Empty(t, cmp.Diff(idle, verdicts(t, w.sim, all)))
				require.Empty(t, w.sim.Sets())
			}
		})
	}
}
