package e2e

import (
	"testing"
	"time"
)

// retry is how long a client may take to try again after the server was away:
// the reflector's pauses grow to half a minute.
const retry = 75 * time.Second

// With the API server away the agent keeps what it has; when the server is
// back it goes on from there, and writes nothing that is already so.
func TestServerRestart(t *testing.T) {
	w := newWorld(t)
	w.node("restart-1", "192.168.1.1")
	w.namespace("away", "team=away")
	w.pod(pod{namespace: "away", name: "server", node: "restart-1", ip: "10.20.0.1", labels: "app=server"})
	w.pod(pod{namespace: "away", name: "friend", node: "restart-1", ip: "10.20.0.2", labels: "app=friend"})
	w.pod(pod{namespace: "away", name: "other", node: "restart-1", ip: "10.20.0.3", labels: "app=other"})
	w.policy("away", "guard", `
podSelector: {matchLabels: {app: server}}
ingress:
- from: [{podSelector: {matchLabels: {app: friend}}}]
`)
	const before = `
		away/friend->away/server:80/TCP allow
		away/other->away/server:80/TCP deny
	`
	a := startAgent(t, "restart-1", agentKubeconfig(t))
	a.waitTrace(before)
	writes := a.writes()

	up.order(t, "stop")
	a.waitUnready()
	a.waitTrace(before)

	up.order(t, "start")
	a.waitReady(retry)
	a.waitTrace(before)
	if now := a.writes(); now != writes {
		t.Errorf("the restart of the API server cost %d writes to HNS", now-writes)
	}

	w.relabelPod("away", "other", "app=friend")
	w.relabelPod("away", "friend", "app=other")
	a.waitTraceFor(retry, `
		away/friend->away/server:80/TCP deny
		away/other->away/server:80/TCP allow
	`)
}
