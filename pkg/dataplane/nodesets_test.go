package dataplane_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
)

// nodeOf returns a node with a role.
func nodeOf(name, role string, addrs ...string) state.Node {
	n := state.Node{Name: name, Labels: map[string]string{"role": role}}
	for _, a := range addrs {
		n.Addrs = append(n.Addrs, netip.MustParseAddr(a))
	}
	return n
}

// nodeTiers denies what goes to nodes of one role and accepts what goes to those of
// another one; nothing else goes out.
var nodeTiers = clusterText("nodes", `{tier: Admin, priority: 1, subject: {namespaces: {}}, egress: [{action: Deny, to: [{nodes: {matchLabels: {role: db}}}]}, {action: Accept, to: [{nodes: {matchLabels: {role: web}}}]}, {action: Deny, to: [{networks: [0.0.0.0/0]}]}]}`)

const (
	dbNodes  = "deny-nodes-role=db"
	webNodes = "nodes-role=web"
)

// TestNodeSets: the sets of nodes have the addresses of the nodes with the labels, also
// of several nodes at a time, whatever comes first. A node over its budget is denied and
// not accepted.
func TestNodeSets(t *testing.T) {
	over := nodeOf("n2", "", "10.1.0.2")
	over.Labels, over.OverBudget = nil, "labels"
	for title, tc := range map[string]struct {
		change  func(tx *dataplane.Transaction)
		db, web []string
	}{
		"as they are":         {func(*dataplane.Transaction) {}, []string{"10.1.0.1", "10.1.1.1"}, []string{"10.1.0.2"}},
		"another role":        {func(tx *dataplane.Transaction) { tx.SetNode(nodeOf("n2", "db", "10.1.0.2")) }, []string{"10.1.0.1", "10.1.0.2", "10.1.1.1"}, nil},
		"another address":     {func(tx *dataplane.Transaction) { tx.SetNode(nodeOf("n1", "db", "10.1.0.1", "fd00::1")) }, []string{"10.1.0.1"}, []string{"10.1.0.2"}},
		"deleted":             {func(tx *dataplane.Transaction) { tx.DeleteNode("n1") }, nil, []string{"10.1.0.2"}},
		"over its budget":     {func(tx *dataplane.Transaction) { tx.SetNode(over) }, []string{"10.1.0.1", "10.1.0.2", "10.1.1.1"}, nil},
		"one that nobody had": {func(tx *dataplane.Transaction) { tx.DeleteNode("n9") }, []string{"10.1.0.1", "10.1.1.1"}, []string{"10.1.0.2"}},
		"two with one address": {func(tx *dataplane.Transaction) {
			tx.SetNode(nodeOf("n3", "db", "10.1.0.1"))
			tx.DeleteNode("n1")
		}, []string{"10.1.0.1"}, []string{"10.1.0.2"}},
	} {
		for how, late := range map[string]bool{"policy first": false, "policy last": true} {
			t.Run(title+"/"+how, func(t *testing.T) {
				w := newWorld(t, nodeTiers)
				w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1")
				w.tx.SetNode(nodeOf("n1", "db", "10.1.0.1", "10.1.1.1"))
				w.tx.SetNode(nodeOf("n2", "web", "10.1.0.2"))
				if !late {
					w.do("cluster nodes", "apply")
				}
				tc.change(w.tx)
				w.do("apply")
				if late {
					w.do("cluster nodes", "apply")
				}
				require.ElementsMatch(t, tc.db, w.has(dbNodes))
				require.ElementsMatch(t, tc.web, w.has(webNodes))
				before := w.sim.Dump()

				w.do("dataplane", "namespace x", "pod x/w 10.0.0.1", "cluster nodes")
				w.tx.SetNode(nodeOf("n1", "db", "10.1.0.1", "10.1.1.1"))
				w.tx.SetNode(nodeOf("n2", "web", "10.1.0.2"))
				tc.change(w.tx)
				w.do("apply", "calls")
				require.Equal(t, before, w.sim.Dump(), "a restart writes nothing")
			})
		}
	}
}

// TestNodeMovesBetweenSets: a node that gets the role that is denied is never accepted
// on its way, and one request is all.
func TestNodeMovesBetweenSets(t *testing.T) {
	w := newWorld(t, nodeTiers)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "cluster nodes")
	w.tx.SetNode(nodeOf("n1", "db", "10.1.0.1"))
	w.do("apply", "trace 10.0.0.1 -> 10.1.0.1 TCP/80 ep out block")
	w.tx.SetNode(nodeOf("n1", "web", "10.1.0.1"))
	w.do("apply", "calls SetPolicy/Update=1", "trace 10.0.0.1 -> 10.1.0.1 TCP/80 ep out allow")
	w.tx.SetNode(nodeOf("n1", "db", "10.1.0.1"))
	w.do("apply", "calls SetPolicy/Update=1", "trace 10.0.0.1 -> 10.1.0.1 TCP/80 ep out block")
}

// blockTiers passes a block on to rules about pods: an Allow and a Block for each.
var blockTiers = clusterText("admin", `{tier: Admin, priority: 1, subject: {namespaces: {}}, egress: [{action: Pass, to: [{networks: [10.0.1.0/24]}]}, {action: Deny, to: [{networks: [10.0.0.0/8]}]}]}`) +
	clusterText("base", `{tier: Baseline, priority: 1, subject: {namespaces: {}}, egress: [{action: Accept, to: [{namespaces: {matchLabels: {team: b}}}]}, {action: Deny, to: [{namespaces: {matchLabels: {team: a}}}]}]}`)

const (
	plainBlock = "inblocks-10.0.1.0/24"
	denyBlock  = "deny-inblocks-10.0.1.0/24"
)

// TestBlockSets: a set of the addresses inside a block has those of pods that claim them
// and of nodes. Those in doubt are in the deny twin alone.
func TestBlockSets(t *testing.T) {
	for title, tc := range map[string]struct {
		change      func(w *script)
		plain, deny []string
	}{
		"as it is":         {func(*script) {}, []string{"10.0.1.1", "10.0.1.9"}, []string{"10.0.1.1", "10.0.1.9"}},
		"a pod outside":    {func(w *script) { w.do("pod a/r 10.0.2.1 remote") }, []string{"10.0.1.1", "10.0.1.9"}, []string{"10.0.1.1", "10.0.1.9"}},
		"a pod more":       {func(w *script) { w.do("pod b/r 10.0.1.2 remote") }, []string{"10.0.1.1", "10.0.1.2", "10.0.1.9"}, []string{"10.0.1.1", "10.0.1.2", "10.0.1.9"}},
		"a pod that went":  {func(w *script) { w.do("delete pod a/q") }, []string{"10.0.1.9"}, []string{"10.0.1.9"}},
		"a pod that ended": {func(w *script) { w.do("pod a/q 10.0.1.1 remote finished") }, []string{"10.0.1.9"}, []string{"10.0.1.9"}},
		"a pod in doubt":   {func(w *script) { w.do("pod b/q 10.0.1.1 remote") }, []string{"10.0.1.9"}, []string{"10.0.1.1", "10.0.1.9"}},
		"a pod over its budget": {func(w *script) {
			w.tx.SetPod(desired.Pod{Namespace: "a", Name: "q", UID: "a/q", Addr: mustAddr("10.0.1.1"), OverBudget: "labels"})
		}, []string{"10.0.1.9"}, []string{"10.0.1.1", "10.0.1.9"}},
		"a node that went": {func(w *script) { w.tx.DeleteNode("n1") }, []string{"10.0.1.1"}, []string{"10.0.1.1"}},
		"a node with the address of a pod that went": {func(w *script) {
			w.tx.SetNode(nodeOf("n2", "db", "10.0.1.1"))
			w.do("apply", "delete pod a/q")
		}, []string{"10.0.1.1", "10.0.1.9"}, []string{"10.0.1.1", "10.0.1.9"}},
		"a pod with the address of a node that went": {func(w *script) {
			w.do("pod a/r 10.0.1.9 remote", "apply")
			w.tx.DeleteNode("n1")
		}, []string{"10.0.1.1", "10.0.1.9"}, []string{"10.0.1.1", "10.0.1.9"}},
		"a pod in doubt with the address of a node that went": {func(w *script) {
			w.do("pod a/r 10.0.1.9 remote", "pod b/r 10.0.1.9 remote", "apply")
			w.tx.DeleteNode("n1")
		}, []string{"10.0.1.1"}, []string{"10.0.1.1", "10.0.1.9"}},
		"an address that is handed on": {func(w *script) { w.do("delete pod a/q", "pod b/q 10.0.1.1 remote") },
			[]string{"10.0.1.1", "10.0.1.9"}, []string{"10.0.1.1", "10.0.1.9"}},
	} {
		for how, late := range map[string]bool{"policy first": false, "policy last": true} {
			t.Run(title+"/"+how, func(t *testing.T) {
				w := newWorld(t, blockTiers)
				w.do("namespace x", "namespace a team=a", "namespace b team=b", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "pod a/q 10.0.1.1 remote")
				w.tx.SetNode(nodeOf("n1", "db", "10.0.1.9"))
				if !late {
					w.do("cluster admin", "cluster base", "apply")
				}
				tc.change(w)
				w.do("apply")
				if late {
					w.do("cluster admin", "cluster base", "apply")
				}
				require.ElementsMatch(t, tc.plain, w.has(plainBlock))
				require.ElementsMatch(t, tc.deny, w.has(denyBlock))
			})
		}
	}
}
