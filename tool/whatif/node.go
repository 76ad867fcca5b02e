package whatif

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// NodeChange is what one node's agent would write.
type NodeChange struct {
	Node string `json:"node"`
	// Sets that come, go or get other members, sorted by name.
	Sets []SetChange `json:"sets"`
	// Endpoints get rules or lose some; ACLs count them over all endpoints.
	Endpoints   int `json:"endpoints"`
	ACLsAdded   int `json:"aclsAdded"`
	ACLsRemoved int `json:"aclsRemoved"`
	// Calls are the HNS requests by kind and verb, reads included; Bytes are those
	// of the writes' content.
	Calls map[string]int `json:"calls"`
	Bytes int            `json:"bytes"`
}

// SetChange is one set that changes.
type SetChange struct {
	Name    string `json:"name"`
	Change  string `json:"change"` // added, changed or removed
	Joined  int    `json:"joined"` // members
	Left    int    `json:"left"`
	Members int    `json:"members"` // afterwards, or when it is removed before
}

// The changes of a set.
const (
	added   = "added"
	changed = "changed"
	removed = "removed"
)

// Changes reports whether anything would be written.
func (n NodeChange) Changes() bool {
	return len(n.Sets) > 0 || n.ACLsAdded+n.ACLsRemoved > 0
}

// played is a node with a dataplane.
type played struct {
	sim *hnssim.Sim
	dp  *dataplane.Dataplane
	now time.Time
}

// play brings the world to a node and programs it.
func (w World) play(ctx context.Context, cfg dataplane.Config, nodeAddrs []netip.Addr, local func(Pod) bool) (*played, error) {
	p := &played{sim: hnssim.New(hnssim.Options{}), now: w.Now}
	cfg.Client, cfg.Now = p.sim, func() time.Time { return p.now }
	p.dp = dataplane.New(cfg)
	if err := w.SetEndpoints(p.sim, local, false); err != nil {
		return nil, err
	}
	tx := World{}.transaction(w, local)
	tx.SetNodeAddrs(nodeAddrs)
	return p, p.apply(ctx, tx)
}

// mostTries bounds the transactions of Converge.
const mostTries = 8

// Apply is the method ApplyDataplane of a dataplane.
type Apply func(context.Context, *dataplane.Transaction) (state.Report, error)

// Converge applies a transaction, and empty ones until everything that can be programmed is; wait
// is called for the pause between two. It returns the first report. After mostTries transactions
// the rest is among the warnings of the dataplane.
func Converge(ctx context.Context, apply Apply, tx *dataplane.Transaction, wait func(time.Duration)) (first state.Report, err error) {
	for try := range mostTries {
		report, err := apply(ctx, tx)
		if try == 0 {
			first = report
		}
		if err != nil || report.Converged() {
			return first, err
		}
		wait(report.RetryAfter)
		tx = dataplane.NewTransaction()
	}
	return first, nil
}

// apply applies a transaction until it has converged, on a clock of its own.
func (p *played) apply(ctx context.Context, tx *dataplane.Transaction) error {
	_, err := Converge(ctx, p.dp.ApplyDataplane, tx, func(d time.Duration) { p.now = p.now.Add(d) })
	return err
}

// changeNode returns the writes of a change on one node.
func (w World) changeNode(ctx context.Context, node Node, c Change) (*NodeChange, error) {
	local := func(p Pod) bool { return p.Node == node.Name }
	p, err := w.play(ctx, dataplane.Config{Node: node.Name}, node.Addrs, local)
	if err != nil {
		return nil, err
	}
	if err := c.After.SetEndpoints(p.sim, local, false); err != nil {
		return nil, err
	}
	sets, rules := setsInHNS(p.sim), rulesInHNS(p.sim)
	p.sim.ResetCalls()
	if err := p.apply(ctx, w.transaction(c.After, local)); err != nil {
		return nil, err
	}
	out := &NodeChange{Node: node.Name, Calls: p.sim.Counts(), Bytes: p.sim.Written()}
	out.compareSets(sets, setsInHNS(p.sim))
	for id, is := range rulesInHNS(p.sim) {
		out.compareRules(rules[id], is)
	}
	return out, nil
}

// rulesInHNS returns the rules of ours in HNS, by endpoint.
func rulesInHNS(sim *hnssim.Sim) map[string][]hns.ACL {
	out := map[string][]hns.ACL{}
	for _, id := range sim.AllEndpointIDs() {
		ep, _ := sim.Endpoint(id)
		out[id], _ = hns.Endpoint{Policies: ep.Policies}.Split()
	}
	return out
}

// setsInHNS returns the sets in HNS, by id.
func setsInHNS(sim *hnssim.Sim) map[string]hns.SetPolicy {
	out := map[string]hns.SetPolicy{}
	for _, set := range sim.Sets() {
		out[set.ID] = set
	}
	return out
}

// compareSets notes which sets differ.
func (n *NodeChange) compareSets(before, after map[string]hns.SetPolicy) {
	n.Sets = []SetChange{}
	for id, was := range before {
		is, ok := after[id]
		if !ok {
			n.Sets = append(n.Sets, SetChange{Name: was.Name, Change: removed, Left: len(was.Values), Members: len(was.Values)})
			continue
		}
		c := SetChange{Name: is.Name, Change: changed, Joined: missing(was.Values, is.Values), Left: missing(is.Values, was.Values), Members: len(is.Values)}
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

// compareRules counts how the rules of an endpoint differ.
func (n *NodeChange) compareRules(was, is []hns.ACL) {
	joined, left := missing(was, is), missing(is, was)
	n.ACLsAdded, n.ACLsRemoved = n.ACLsAdded+joined, n.ACLsRemoved+left
	if joined+left > 0 {
		n.Endpoints++
	}
}

// missing counts those of the second list that the first lacks.
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
