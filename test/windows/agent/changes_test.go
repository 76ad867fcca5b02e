//go:build linux

package agent

import (
	"fmt"

	"github.com/stretchr/testify/require"
)

// changes keeps a drawn cluster changing, as a busy one does, without letting
// it grow.
type changes struct {
	*drawn
	h       *host
	turn    int          // of the next policy
	deleted map[int]bool // policies that are not there at the moment
	next    int          // the next address that no pod ever had
	events  int          // changes of objects so far

}

func newChanges(d *drawn, h *host) *changes {
	return &changes{drawn: d, h: h, turn: d.policies, deleted: map[int]bool{}, next: len(d.pods)}
}

// step changes something.
func (c *changes) step() {
	c.t.Helper()
	switch i := c.IntN(20); {
	case i < 10:
		c.relabelPod(c.IntN(len(c.pods)))
	case i < 14:
		c.replacePod(c.IntN(len(c.pods)))
	case i < 18:
		c.changePolicy(c.IntN(c.policies))
	default:
		c.relabelNamespace()
	}
}

// relabel gives an object labels; those of all that are not among them go.
func (c *changes) relabel(resource, namespace, name string, labels map[string]string, all ...string) {
	c.t.Helper()
	require.NoError(c.t, c.kube.patch(c.t.Context(), resource, namespace, name, "", labelPatch(c.t, labels, all...)))
	c.events++
}

func (c *changes) relabelPod(i int) {
	c.t.Helper()
	p := &c.pods[i]
	p.labels = c.podLabels()
	c.relabel(pods, p.namespace, p.name, p.labels, "app", "tier")
}

func (c *changes) relabelNamespace() {
	c.t.Helper()
	name := c.pods[c.IntN(len(c.pods))].namespace
	c.relabel(namespaces, "", name, c.namespaceLabels(), "team", "stage")
}

// replacePod deletes a pod and creates another one of its name, often with its
// address: the sandbox goes first and comes first.
func (c *changes) replacePod(i int) {
	c.t.Helper()
	old := c.pods[i]
	local := old.node == ownNode
	if local {
		c.h.unplug(old.addr)
	}
	// The kubelet reports the end before the object goes, or the pod would be lost.
	require.NoError(c.t, c.kube.patch(c.t.Context(), pods, old.namespace, old.name, "status", `{"status":{"phase":"Succeeded"}}`))
	require.NoError(c.t, c.kube.remove(c.t.Context(), pods, old.namespace, old.name))
	at := old.addr
	if c.IntN(2) == 0 {
		at = addr(c.next)
		c.next++
	}
	if local {
		c.h.plug(at)
	}
	c.pods[i] = c.pod(old.namespace, old.name, old.node, at)
	require.NoError(c.t, c.kube.makePod(c.t.Context(), c.pods[i]))
	c.events += 3 // deleted, created, started
}

// changePolicy replaces a policy, deletes it, or brings it back.
func (c *changes) changePolicy(i int) {
	c.t.Helper()
	ctx := c.t.Context()
	namespace, name := c.pods[i%len(c.pods)].namespace, policyName(i)
	np := c.drawer.policy(namespace, name, c.turn)
	c.turn++
	switch {
	case c.deleted[i]:
		require.NoError(c.t, c.kube.create(ctx, policies, namespace, np))
		delete(c.deleted, i)
	case c.IntN(3) == 0:
		require.NoError(c.t, c.kube.remove(ctx, policies, namespace, name))
		c.deleted[i] = true
	default:
		require.NoError(c.t, c.kube.update(ctx, policies, namespace, name, np))
	}
	c.events++
}

func (c *changes) String() string {
	return fmt.Sprintf("%d events, %d addresses used, %d policies deleted", c.events, c.next, len(c.deleted))
}
