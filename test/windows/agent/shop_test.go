//go:build linux

package agent

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Names and addresses that all tests use.
const (
	ownNode   = "win-1"
	otherNode = "win-2"
)

var (
	ownAddr = netip.MustParseAddr("10.240.0.5")
	webAddr = netip.MustParseAddr("10.1.0.1")
	dbAddr  = netip.MustParseAddr("10.1.0.2")
	farAddr = netip.MustParseAddr("10.1.0.3")
	outside = netip.MustParseAddr("172.16.5.4") // no pod and no node has it
)

// azure is the HNS of a node with azure-cni.
func azure() hnsd.Options { return hnsd.Options{Foreign: hnssim.DefaultForeign()} }

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

// openShop runs npm.exe on the shop's own node, and returns once the policy is in force.
func openShop(t *testing.T, flags ...string) (*host, *world, *npm) {
	t.Helper()
	h := newHost(t, azure())
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{flags: flags})
	n.waitReady()
	h.waitShop(false)
	return h, w, n
}

// waitShop waits until db takes port 80 from web, both ports from the node, port 443 from far if it
// has the policy for that, and nothing else.
func (h *host) waitShop(far bool) {
	h.t.Helper()
	eventually(h.t, settle, func() string {
		for _, from := range []netip.Addr{webAddr, farAddr, outside, ownAddr} {
			for _, port := range []uint16{80, 443} {
				want := hnsfault.Denied
				if from == ownAddr || from == webAddr && port == 80 || far && from == farAddr && port == 443 {
					want = hnsfault.Allowed
				}
				p := hnssim.Packet{Src: from, Dst: dbAddr, Protocol: 6, DstPort: port}
				if got := h.Sim().Ask(hnsfault.Probe{Endpoint: h.endpoints[dbAddr], Direction: hns.In, Packet: p})[0]; got != want {
					return fmt.Sprintf("from %v to port %d of db: %v, not %v", from, port, got, want)
				}
			}
		}
		return ""
	})
}
