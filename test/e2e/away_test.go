package e2e

import (
	"strings"
	"testing"
	"time"
)

// retry is how long a client may take to try again after the server was away:
// the reflector's pauses grow to half a minute.
const retry = 75 * time.Second

// With the API server away the agent keeps what it has; when the server is
// back it goes on from there, and writes nothing that is already so.
func TestServerAway(t *testing.T) {
	w := newWorld(t)
	w.node("away-1", "192.168.1.1")
	w.namespace("away", "team=away")
	w.pod(pod{namespace: "away", name: "server", node: "away-1", ip: "10.20.0.1", labels: "app=server"})
	w.pod(pod{namespace: "away", name: "friend", node: "away-1", ip: "10.20.0.2", labels: "app=friend"})
	w.pod(pod{namespace: "away", name: "other", node: "away-1", ip: "10.20.0.3", labels: "app=other"})
	w.policy("away", "guard", `
podSelector: {matchLabels: {app: server}}
ingress:
- from: [{podSelector: {matchLabels: {app: friend}}}]
`)
	const before = `
		away/friend->away/server:80/TCP allow
		away/other->away/server:80/TCP deny
	`
	p := newProxy(t)
	a := startAgent(t, "away-1", kubeconfigOf(t, "kube-system", agentAccount, p.url, p.ca))
	a.waitTrace(before)
	writes := a.writes()

	p.cut()
	a.waitUnready()
	a.waitTrace(before)

	p.open(strings.TrimPrefix(p.url, "https://"))
	a.waitReady(retry)
	a.waitTrace(before)
	if now := a.writes(); now != writes {
		t.Errorf("the outage of the API server cost %d writes to HNS", now-writes)
	}

	w.relabelPod("away", "other", "app=friend")
	w.relabelPod("away", "friend", "app=other")
	a.waitTraceFor(retry, `
		away/friend->away/server:80/TCP deny
		away/other->away/server:80/TCP allow
	`)
}
