//go:build linux

package agent

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// What is reported of a restart of Azure NPM: 195 of 208 probes that had to be
// denied passed, for 182 s. Here are as many, and none passes.
func TestScenario_A4_NothingOpensAtARestart(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w, denied, allowed := isolatedPods(t, h)
	require.Len(t, denied, 208)
	n := start(t, ownNode, h.addr, options{flags: hurried})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	was := h.watch(slices.Concat(denied, allowed))
	require.NotContains(t, was[:len(denied)], hnsfault.Allowed)
	require.NotContains(t, was[len(denied):], hnsfault.Denied)
	for _, hard := range []bool{true, false} {
		n = n.restart(h, hard)
		open, longest := letThrough(h.Sim().Transitions())
		t.Logf("restart (kill -9: %t): %d of %d probes that must be denied passed, for %v", hard, open, len(denied), longest.Round(time.Millisecond))
		always(t, 2*hurriedInterval, h.touched)
	}

	// Had anything opened, it would have been seen.
	w.deletePolicy("shop", "pod-0")
	h.waitVerdicts(w.kube, ownAddr)
	open, _ := letThrough(h.Sim().Transitions())
	require.Equal(t, len(denied)/8, open, "those of one pod")
}

// isolatedPods makes eight local pods, each with a policy of its own that lets
// one friend in at two ports, and 13 strangers. It returns the packets of both.
func isolatedPods(t *testing.T, h *host) (w *world, denied, allowed []hnsfault.Probe) {
	t.Helper()
	w = newWorld(t)
	w.node(ownNode, ownAddr.String())
	w.namespace("shop", nil)
	const locals, strangers = 8, 13
	var all []pod
	for i := range locals + strangers + 1 {
		name := fmt.Sprintf("pod-%d", i)
		p := pod{namespace: "shop", name: name, node: otherNode, addr: addr(i), labels: map[string]string{"app": name}}
		if i < locals {
			p.node = ownNode
			h.plug(p.addr)
		}
		all = append(all, p)
	}
	w.pods(all)
	friend := all[locals+strangers]
	for _, p := range all[:locals] {
		w.policy("shop", p.name, fmt.Sprintf(
			`{podSelector: {matchLabels: {app: %s}}, ingress: [{from: [{podSelector: {matchLabels: {app: %s}}}], ports: [{port: 80}, {port: 443}]}]}`,
			p.name, friend.name))
		for _, port := range []uint16{80, 443} {
			for _, stranger := range all[locals : locals+strangers] {
				denied = append(denied, h.incoming(stranger, p, port))
			}
			allowed = append(allowed, h.incoming(friend, p, port))
		}
	}
	return w, denied, allowed
}

// incoming asks whether a local pod takes a packet over TCP.
func (h *host) incoming(from, to pod, port uint16) hnsfault.Probe {
	return hnsfault.Probe{
		Endpoint: h.endpoints[to.addr], Direction: hns.In,
		Packet: hnssim.Packet{Src: from.addr, Dst: to.addr, Protocol: 6, DstPort: port},
	}
}
