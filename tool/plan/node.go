package plan

import (
	"cmp"
	"context"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// NodeChange is what the agent of one node would write.
type NodeChange struct {
	Node string `json:"node"`
	// Sets are the sets that are added, removed or changed, sorted by name.
	Sets []SetChange `json:"sets"`
	// Endpoints counts the endpoints whose rules change. ACLsAdded and ACLsRemoved are totals over all
	// endpoints.
	Endpoints   int `json:"endpoints"`
	ACLsAdded   int `json:"aclsAdded"`
	ACLsRemoved int `json:"aclsRemoved"`
	// Calls counts the HNS requests by kind and verb, including reads. Bytes is the size of the requests
	// that write.
	Calls map[string]int `json:"calls"`
	Bytes int            `json:"bytes"`
}

// SetChange is one set that changes.
type SetChange struct {
	Name    string `json:"name"`
	Change  string `json:"change"` // added, changed or removed
	Joined  int    `json:"joined"` // members
	Left    int    `json:"left"`
	Members int    `json:"members"` // after the change, or before it if the set is removed
}

// The changes of a set.
const (
	added   = "added"
	removed = "removed"
)

// Changes reports whether anything would be written.
func (n NodeChange) Changes() bool {
	return len(n.Sets) > 0 || n.ACLsAdded+n.ACLsRemoved > 0
}

// changeNode returns the writes of one node's agent for a change.
func changeNode(ctx context.Context, w cluster.World, node cluster.Node, c cluster.Change) (*NodeChange, error) {
	n, _, err := w.Simulate(ctx, cluster.Setup{Node: node.Name, Addrs: node.Internal, Local: func(p cluster.Pod) bool { return p.Node == node.Name }})
	if err != nil {
		return nil, err
	}
	if err := c.After.SetEndpoints(n.Sim, n.Local, false); err != nil {
		return nil, err
	}
	sets, rules := setsInHNS(n.Sim), rulesInHNS(n.Sim)
	n.Sim.ResetCalls()
	if _, err := n.Program(ctx, c.After); err != nil {
		return nil, err
	}
	out := &NodeChange{Node: node.Name, Calls: n.Sim.Counts(), Bytes: n.Sim.Written()}
	out.compareSets(sets, setsInHNS(n.Sim))
	for id, is := range rulesInHNS(n.Sim) {
		joined, left := missing(rules[id], is), missing(is, rules[id])
		out.ACLsAdded, out.ACLsRemoved = out.ACLsAdded+joined, out.ACLsRemoved+left
		if joined+left > 0 {
			out.Endpoints++
		}
	}
	return out, nil
}

func rulesInHNS(sim *hnssim.Sim) map[string][]hns.ACL {
	out := map[string][]hns.ACL{}
	for _, id := range sim.AllEndpointIDs() {
		ep, _ := sim.Endpoint(id)
		out[id], _ = hns.Endpoint{Policies: ep.Policies}.Split()
	}
	return out
}

func setsInHNS(sim *hnssim.Sim) map[string]hns.SetPolicy {
	out := map[string]hns.SetPolicy{}
	for _, set := range sim.Sets() {
		out[set.ID] = set
	}
	return out
}

func (n *NodeChange) compareSets(before, after map[string]hns.SetPolicy) {
	n.Sets = []SetChange{}
	for id, was := range before {
		is, ok := after[id]
		if !ok {
			n.Sets = append(n.Sets, SetChange{Name: was.Name, Change: removed, Left: len(was.Values), Members: len(was.Values)})
			continue
		}
		c := SetChange{Name: is.Name, Change: cluster.Changed, Joined: missing(was.Values, is.Values), Left: missing(is.Values, was.Values), Members: len(is.Values)}
		if c.Joined+c.Left > 0 {
			n.Sets = append(n.Sets, c)
		}
	}
	for id, is := range after {
		if _, ok := before[id]; !ok {
			n.Sets = append(n.Sets, SetChange{Name: is.Name, Change: added, Joined: len(is.Values), Members: len(is.Values)})
		}
	}
	slices.SortFunc(n.Sets, func(a, b SetChange) int { return cmp.Compare(a.Name, b.Name) })
}

// missing counts the entries of list that from lacks.
func missing[T comparable](from, list []T) int {
	have := map[T]int{}
	for _, v := range from {
		have[v]++
	}
	n := 0
	for _, v := range list {
		if have[v]--; have[v] < 0 {
			n++
		}
	}
	return n
}
