package dataplane_test

import (
	"net/netip"

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
const nodeTiers = `cluster nodes {tier: Admin, priority: 1, subject: {namespaces: {}}, egress: [{action: Deny, to: [{nodes: {matchLabels: {role: db}}}]}, {action: Accept, to: [{nodes: {matchLabels: {role: web}}}]}, {action: Deny, to: [{networks: [0.0.0.0/0]}]}]}`

const (
	dbNodes  = "deny-nodes-role=db"
	webNodes = "nodes-role=web"
)

// blockTiers passes a block on to rules about pods: an Allow and a Block for each.
const (
	blockAdmin = `cluster admin {tier: Admin, priority: 1, subject: {namespaces: {}}, egress: [{action: Pass, to: [{networks: [10.0.1.0/24]}]}, {action: Deny, to: [{networks: [10.0.0.0/8]}]}]}`
	blockBase  = `cluster base {tier: Baseline, priority: 1, subject: {namespaces: {}}, egress: [{action: Accept, to: [{namespaces: {matchLabels: {team: b}}}]}, {action: Deny, to: [{namespaces: {matchLabels: {team: a}}}]}]}`
)

const (
	plainBlock = "inblocks-10.0.1.0/24"
	denyBlock  = "deny-inblocks-10.0.1.0/24"
)
