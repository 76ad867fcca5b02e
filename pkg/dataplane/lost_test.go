package dataplane_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/desired"
)

// lostLater denies what x/web sends to any other address.
const lostLater = `cluster later {tier: Admin, priority: 0, subject: {namespaces: {matchLabels: {team: xx}}}, egress: [{action: Deny, to: [{networks: ["10.9.9.9/32"]}]}]}`

// lostWorld has the local pod x/web and a pod of namespace y on another node. An Admin policy denies
// connections from namespace y to x/web, and a NetworkPolicy of x/web allows them.
func lostWorld(t *testing.T) *world {
	w := newWorld(t)
	w.do("namespace x team=xx", "namespace y team=yy", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web", "pod y/e 10.0.1.1 remote",
		`policy x/web {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {}}]}]}`, `cluster deny {tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {team: xx}}}, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: yy}}}]}, {action: Accept, from: [{namespaces: {}}]}]}`, "apply", fromLost+"block", fromAny+"block")
	return w
}

const fromLost = "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in "

// TestLostPod: if a pod is deleted before it finished, its address stays denied until another pod
// has the address, or until one minute after the pod's grace period.
func TestLostPod(t *testing.T) {
	// What is denied by no rule is allowed by none of those that mean pods, so the NetworkPolicy
	// of web denies it as well. Without it Admin alone decides.
	open := func(t *testing.T) *world {
		w := lostWorld(t)
		w.do("delete policy x/web", "apply", fromLost+"block")
		return w
	}
	for name, tt := range map[string]struct {
		pod  string
		ends []string
	}{
		"another pod":             {ends: []string{"pod x/n 10.0.1.1 remote", "apply"}},
		"the pod comes back":      {ends: []string{"pod y/e 10.0.1.1 remote", "namespace y team=zz", "apply"}},
		"the default grace":       {ends: []string{"wait 89s", "apply", fromLost + "block", "wait 1s", "apply"}},
		"its grace":               {pod: "10m", ends: []string{"wait 10m59s", "apply", fromLost + "block", "wait 1s", "apply"}},
		"an hour at most":         {pod: "2h", ends: []string{"wait 59m59s", "apply", fromLost + "block", "wait 1s", "apply"}},
		"a finished pod does not": {ends: []string{"pod x/n 10.0.1.1 remote finished", "apply", fromLost + "block", "wait 2m", "apply"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			if tt.pod != "" {
				grace, err := time.ParseDuration(tt.pod)
				require.NoError(t, err)
				w.tx.SetPod(desired.Pod{Namespace: "y", Name: "e", UID: "y/e", Addr: netip.MustParseAddr("10.0.1.1"), Grace: grace})
				w.do("apply")
			}
			w.do("vanish y/e", "apply", fromLost+"block")
			require.Positive(t, w.report.ProbeAfter, "a transaction ends it")
			require.True(t, w.report.Converged())
			w.do(tt.ends...)
			w.do(fromLost + "allow")
		})
	}
	t.Run("a pod that restarts elsewhere", func(t *testing.T) {
		w := open(t)
		w.do("pod y/e 10.0.1.2 remote uid=two", "apply", fromLost+"block", "trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep in block", "wait 2m", "apply", fromLost+"allow")
	})
	t.Run("a finished pod", func(t *testing.T) {
		w := open(t)
		w.do("pod y/e 10.0.1.1 remote finished", "apply", "vanish y/e", "apply", fromLost+"allow")
		require.Zero(t, w.report.ProbeAfter)
	})
}

// TestLostPodHere: the endpoint of a local lost pod keeps its rules, and gets new ones, until the
// endpoint is gone.
func TestLostPodHere(t *testing.T) {
	w := lostWorld(t)
	w.do(outToAny+"allow", "vanish x/web", "apply", "calls SetPolicy/Update=1", lostLater, "apply", outToAny+"block", fromAny+"block", fromLost+"block",
		"no-endpoint ep", "observe", "apply")
	for _, p := range w.dp.Dump().Pods {
		require.NotContains(t, p.Pod, "x/web")
	}
}

// TestLostPodsOfNetworkPolicies: without deny rules, a lost pod causes the same writes as a pod that
// was deleted after it finished.
func TestLostPodsOfNetworkPolicies(t *testing.T) {
	plan := func(lose bool) (string, map[string]int) {
		w := newWorld(t)
		w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web", "pod x/api 10.0.1.1 app=api remote", `policy x/web {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`, "apply")
		if lose {
			w.do("vanish x/api", "apply")
		} else {
			w.do("delete pod x/api", "apply")
		}
		return w.report.Plan, w.report.Calls
	}
	lost, calls := plan(true)
	deleted, want := plan(false)
	require.Equal(t, deleted, lost)
	require.Equal(t, want, calls)
}
