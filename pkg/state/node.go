package state

import (
	"maps"
	"net/netip"
	"slices"
)

// Node is a node of the cluster, as ClusterNetworkPolicies have it for a peer.
type Node struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Addrs  []netip.Addr      `json:"addresses,omitempty"` // of status.addresses, IPv4
	// OverBudget says in what the object is over its budget. Such a node has no labels
	// here.
	OverBudget string `json:"overBudget,omitempty"`
}

// Same reports whether two states of a node of one name mean the same.
func (n *Node) Same(o *Node) bool {
	return n.OverBudget == o.OverBudget && maps.Equal(n.Labels, o.Labels) && slices.Equal(n.Addrs, o.Addrs)
}
