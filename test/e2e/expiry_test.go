package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// retry is how long a client may take to try again after the server was away:
// the reflector's pauses grow to half a minute.
const retry = 75 * time.Second

// An agent that was cut off for so long that the store has forgotten what
// happened lists everything again, and learns of what is gone.
func TestWatchExpiry(t *testing.T) {
	w := newWorld(t)
	w.node("expiry-1", "192.168.2.1")
	w.namespace("old", "team=old")
	w.pod(pod{namespace: "old", name: "server", node: "expiry-1", ip: "10.30.0.1", labels: "app=server"})
	w.pod(pod{namespace: "old", name: "friend", node: "expiry-1", ip: "10.30.0.2", labels: "app=stranger"})
	w.pod(pod{namespace: "old", name: "other", node: "expiry-1", ip: "10.30.0.3", labels: "app=other"})
	const fromFriends = `
podSelector: {matchLabels: {app: server}}
ingress:
- from: [{podSelector: {matchLabels: {app: friend}}}]
`
	const before = `
		old/friend->old/server:80/TCP allow
		old/other->old/server:80/TCP deny
		old/server->old/other:80/TCP allow
	`
	p := newProxy(t)
	a := startAgent(t, "expiry-1", kubeconfigOf(t, "kube-system", agentAccount, p.url, p.ca))
	// A watch that ends before it has delivered anything is not resumed; each
	// of these has to deliver one event.
	w.policy("old", "guard", fromFriends)
	w.relabelPod("old", "friend", "app=friend")
	a.waitTrace(before)

	p.cut()
	w.deletePod("old", "friend")
	w.pod(pod{namespace: "old", name: "late", node: "expiry-1", ip: "10.30.0.2", labels: "app=late"})
	w.relabelPod("old", "other", "app=friend")
	w.deletePolicy("old", "guard")
	w.policy("old", "guard-2", fromFriends)
	w.policy("old", "closed", `{podSelector: {matchLabels: {app: friend}}}`)
	a.waitUnready()
	a.waitTrace(before)

	// The store forgets, and so does the API server, which keeps the last
	// events in its own memory.
	up.order(t, "compact")
	up.order(t, "stop")
	up.order(t, "start")
	p.forget()
	p.mend()
	a.waitTraceFor(retry, `
		old/late->old/server:80/TCP deny
		old/other->old/server:80/TCP allow
		old/server->old/other:80/TCP deny
	`)
	require.Subset(t, p.relisted(), []string{"networkpolicies", "pods"}, "listed in full after %q", expired)
	a.waitReady(retry)
}
