package desired

import (
	"net/netip"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// clusterNodes are the nodes of the cluster, which ClusterNetworkPolicies have as peers,
// and the sets of addresses that no label of a pod gives: those of nodes, and those that
// we know of inside blocks. The API server's administrator makes nodes; rules that are
// active here make the sets.
type clusterNodes struct {
	nodes map[string]*state.Node
	addrs map[netip.Addr]int // how many nodes have an address
	// sets are those of KindNodes, blocks those of KindInBlocks.
	sets   map[ipsets.Name]*nodeSet
	blocks map[ipsets.Name][]netip.Prefix
}

// nodeSet is a set of addresses of nodes, as it is.
type nodeSet struct {
	match policy.LabelMatcher
	addrs map[netip.Addr]bool
}

func newClusterNodes() clusterNodes {
	return clusterNodes{
		nodes: map[string]*state.Node{}, addrs: map[netip.Addr]int{},
		sets: map[ipsets.Name]*nodeSet{}, blocks: map[ipsets.Name][]netip.Prefix{},
	}
}

// setNodes takes over how nodes are now; nil deletes one. It costs all nodes for each set
// of nodes, once in a transaction that has any: they seldom get other labels or
// addresses.
func (m *members) setNodes(changed map[string]*state.Node) {
	if len(changed) == 0 {
		return
	}
	touched := map[netip.Addr]bool{}
	count := func(n *state.Node, more int) {
		if n == nil {
			return
		}
		for _, a := range IPv4(n.Addrs) {
			touched[a] = true
			if m.cluster.addrs[a] += more; m.cluster.addrs[a] == 0 {
				delete(m.cluster.addrs, a)
			}
		}
	}
	for name, n := range changed {
		count(m.cluster.nodes[name], -1)
		count(n, 1)
		if n == nil {
			delete(m.cluster.nodes, name)
		} else {
			m.cluster.nodes[name] = n
		}
	}
	for name, s := range m.cluster.sets {
		m.fillNodes(name, s)
	}
	for name, blocks := range m.cluster.blocks {
		for a := range touched {
			switch {
			case !inBlocks(blocks, a):
			case m.cluster.addrs[a] > 0:
				m.cache.AddAddr(name, a)
			case !m.podAt(a, name.Denies()):
				m.cache.RemoveAddr(name, a)
			}
		}
	}
}

// fillNodes brings a set of nodes up to date. Of a node over its budget the labels are
// not known: a deny twin has it, the other set has not.
func (m *members) fillNodes(name ipsets.Name, s *nodeSet) {
	want := map[netip.Addr]bool{}
	for _, n := range m.cluster.nodes {
		if n.OverBudget == "" && s.match.Matches(n.Labels) || n.OverBudget != "" && name.Denies() {
			for _, a := range IPv4(n.Addrs) {
				want[a] = true
			}
		}
	}
	for a := range s.addrs {
		if !want[a] {
			m.cache.RemoveAddr(name, a)
		}
	}
	for a := range want {
		m.cache.AddAddr(name, a)
	}
	s.addrs = want
}

// fillBlocks fills a new set of the addresses inside blocks. It costs the pods.
func (m *members) fillBlocks(name ipsets.Name, blocks []netip.Prefix) {
	for a := range m.cluster.addrs {
		if inBlocks(blocks, a) {
			m.cache.AddAddr(name, a)
		}
	}
	for _, p := range m.pods {
		if p.inBlocks(name.Denies()) && inBlocks(blocks, p.Addr) {
			m.cache.AddAddr(name, p.Addr)
		}
	}
}

// eachBlockSet visits the sets of addresses inside blocks that have the pod's.
func (m *members) eachBlockSet(p *PodState, visit func(ipsets.Name)) {
	for name, blocks := range m.cluster.blocks {
		if p.inBlocks(name.Denies()) && inBlocks(blocks, p.Addr) {
			visit(name)
		}
	}
}

// inBlocks reports whether the pod's address is one that sets of addresses inside blocks
// have: beyond doubt, or in those that deny when it may be.
func (p *PodState) inBlocks(denies bool) bool { return p.inSets() || denies && p.doubtful() }

// podAt reports whether a pod has an address. It costs the pods, and is asked only when a
// node loses one.
func (m *members) podAt(a netip.Addr, denies bool) bool {
	for _, p := range m.pods {
		if p.Addr == a && p.inBlocks(denies) {
			return true
		}
	}
	return false
}
