//go:build linux

package agent

import (
	"testing"
)

// Addresses of the shop's pods.
var (
	webAddr  = addr(0)
	dbAddr   = addr(1)
	farAddr  = addr(2)
	goneAddr = addr(4)
)

// Policies of the shop: the specs.
const (
	fromWeb = `{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 80}]}]}`
	fromFar = `{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: far}}}], ports: [{port: 443}]}]}`
)

// shop is a small cluster: web and db on the own node, far on another, and a
// policy that only lets web reach db.
func shop(t *testing.T, h *host) *world {
	t.Helper()
	w := newWorld(t)
	w.node(ownNode, ownAddr.String())
	w.namespace("shop", map[string]string{"team": "red"})
	h.plug(webAddr, dbAddr)
	w.pods([]pod{
		{namespace: "shop", name: "web", node: ownNode, addr: webAddr, labels: map[string]string{"app": "web"}},
		{namespace: "shop", name: "db", node: ownNode, addr: dbAddr, labels: map[string]string{"app": "db"}},
		{namespace: "shop", name: "far", node: otherNode, addr: farAddr, labels: map[string]string{"app": "far"}},
	})
	w.policy("shop", "from-web", fromWeb)
	return w
}

// openShop runs npm.exe on the shop's own node, and returns once HNS judges
// every packet as the policies say.
func openShop(t *testing.T, flags ...string) (*host, *world, *npm) {
	t.Helper()
	h := newHost(t, azure())
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{flags: flags})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	return h, w, n
}
