// Package plan plans a change of policies and other objects: which connections would flip, and what each
// node's agent would write. It runs the dataplane on a simulator of HNS, before and after the change.
package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/manifest"
	"github.com/winnpm/winnpm/tool/phrase"
)

// Plan describes the effects of a change. Its lists are sorted.
type Plan struct {
	Policies []PolicyChange `json:"policies"`
	// Objects are the changes of objects other than policies.
	Objects []cluster.ObjectChange `json:"objects"`
	// Pods counts the pods that own an address in the pod network before and after. Connections counts the
	// ordered pairs of them. A connection flips if it flips on any port.
	Pods        int `json:"pods"`
	Connections int `json:"connections"`
	// Tally counts all flips: Between pods, and WithOutside, where a pod and all addresses outside are one
	// connection in each direction.
	Tally
	Between     Tally `json:"betweenPods"`
	WithOutside Tally `json:"withOutside"`
	// NewPods and DeletedPods count the connections of pods that exist only after, or only before, the
	// change. Such connections are not counted as flips.
	NewPods     Others `json:"newPods"`
	DeletedPods Others `json:"deletedPods"`
	// Workloads and Addresses are the ends that flips name.
	Workloads []explain.Workload `json:"workloads"`
	Addresses []Addresses        `json:"addresses"`
	Flips     []Flip             `json:"flips"`   // between pods
	Outside   []Flip             `json:"outside"` // with addresses outside
	// NewConnections and DeletedConnections are the connections of new and of deleted pods.
	NewConnections     []Flip `json:"newConnections"`
	DeletedConnections []Flip `json:"deletedConnections"`
	// Nodes are the nodes on which something is written, out of NodesSeen nodes.
	Nodes     []NodeChange `json:"nodes"`
	NodesSeen int          `json:"nodesSeen"`
	// Warnings are about parts of the input that cannot be enforced, and about doubts in the plan.
	Warnings []state.Warning `json:"warnings"`
}

// Tally counts connections that flip, each once for all its ports.
type Tally struct {
	Flipped int `json:"flipped"`
	Opened  int `json:"opened"`            // on some port
	Blocked int `json:"blocked"`           // on some port
	Unknown int `json:"unknown,omitempty"` // the verdict after the change is unknown on some port
}

// add counts the flips between two ends.
func (t *Tally) add(flips []Flip) {
	if len(flips) == 0 {
		return
	}
	n := flips[0].Connections
	t.Flipped += n
	for verdict, to := range map[explain.Verdict]*int{explain.Allowed: &t.Opened, explain.Blocked: &t.Blocked, explain.Unknown: &t.Unknown} {
		if slices.ContainsFunc(flips, func(f Flip) bool { return f.After == verdict }) {
			*to += n
		}
	}
}

// New plans a change of a world. It fails with ErrNoNodes if a policy has nodes as peers and the world does
// not know its nodes.
func New(ctx context.Context, w cluster.World, c cluster.Change) (Plan, error) {
	if err := checkNodes(w, c); err != nil {
		return Plan{}, err
	}
	policies := classify(w, c)
	missing := noNamespaces(w, c, policies)
	b := policy.DefaultBudgets()
	w.Policies, c.After.Policies = b.Fit(w.Policies), b.Fit(c.After.Policies)
	before, after, err := everywhere(ctx, w, c)
	if err != nil {
		return Plan{}, err
	}

	now := idle(after.Dump())
	for i := range policies {
		policies[i].SelectsNothing = now[policies[i].Policy]
	}
	if len(c.Objects) > 0 {
		policies = noteLost(w, policies, idle(before.Dump()), now)
	}
	misleading := slices.DeleteFunc(slices.Clone(w.Warnings), func(w state.Warning) bool { return !manifest.Misleads(w) })
	said := slices.Concat(misleading, missing, c.Warnings, warnings(before.Dump().Warnings, after.Dump().Warnings, c))
	objects := append([]cluster.ObjectChange{}, c.Objects...)
	slices.SortFunc(objects, func(a, b cluster.ObjectChange) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object))
	})
	nodes := c.After.Planned()
	plan := Plan{Policies: policies, Objects: objects, Warnings: append([]state.Warning{}, said...), NodesSeen: len(nodes), Nodes: []NodeChange{}}
	x := newComparison(before, after, policies)
	if err := plan.flips(ctx, x); err != nil {
		return Plan{}, err
	}
	writes := map[string]bool{} // nodes on which something may be written
	for _, p := range slices.Concat(w.Pods, c.After.Pods) {
		writes[p.Node] = writes[p.Node] || x.changed[p.Key().String()]
	}
	for _, node := range nodes {
		if !writes[node.Name] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return Plan{}, err
		}
		n, err := changeNode(ctx, w, node, c)
		if err != nil {
			return Plan{}, err
		}
		if n.Changes() {
			plan.Nodes = append(plan.Nodes, *n)
		}
	}
	slices.SortFunc(plan.Nodes, func(a, b NodeChange) int { return cmp.Compare(a.Node, b.Node) })
	return plan, nil
}

// everywhere returns the cluster before and after a change. It simulates all pods on one node without
// addresses, so that policies alone decide.
func everywhere(ctx context.Context, w cluster.World, c cluster.Change) (before, after *explain.Cluster, err error) {
	n, _, err := w.Simulate(ctx, cluster.Setup{Local: func(cluster.Pod) bool { return true }, Unchecked: true})
	if err != nil {
		return nil, nil, err
	}
	was := n.Dataplane.Snapshot()
	if _, err := n.Program(ctx, c.After); err != nil {
		return nil, nil, err
	}
	is := n.Dataplane.Snapshot()
	return explain.New(was.Dump()), explain.New(is.Dump()), nil
}

// Others counts the connections of new or of deleted pods that are not blocked, with other pods and with
// addresses outside.
type Others struct {
	Pods    int `json:"pods"`
	Allowed int `json:"allowed"`           // on some port
	Unknown int `json:"unknown,omitempty"` // not known on some port, and allowed on none
	// WithOutside counts the part of Allowed and Unknown with addresses outside.
	WithOutside int `json:"withOutside"`
	// ByPolicy counts the part of Allowed that a policy of an existing pod allows: the policy has more
	// peers now. It is 0 for deleted pods.
	ByPolicy int `json:"byPolicy"`
}

// Any reports whether a connection flips, is added, or is deleted.
func (p Plan) Any() bool {
	others := p.NewPods.Allowed + p.NewPods.Unknown + p.DeletedPods.Allowed + p.DeletedPods.Unknown
	return p.Flipped+others > 0
}

// Absent is the verdict of a connection whose end does not exist, as the pod is new or deleted.
const Absent explain.Verdict = "absent"

// flipped reports whether the verdict changes. A connection of an absent pod counts as blocked.
func flipped(old, now explain.Verdict) bool {
	nothing := func(v explain.Verdict) bool { return v == Absent || v == explain.Blocked }
	return old != now && (old != Absent && now != Absent || !nothing(old) || !nothing(now))
}

// admits reports whether exactly one end stays, and a policy of it allows the connection.
func (x *comparison) admits(from, to *end, now answer) bool {
	if now.verdict != explain.Allowed || from.stays() == to.stays() || from.outside || to.outside {
		return false
	}
	side := out
	if to.stays() {
		side = in
	}
	return len(x.after.Policies(now.halves[side])) > 0
}

func (p *Plan) count(x *comparison) {
	for i := range x.ends {
		e := &x.ends[i]
		if e.outside {
			break
		}
		p.Workloads = append(p.Workloads, e.Workload)
		switch {
		case e.stays():
			p.Pods += len(e.Pods)
		case e.there[1]:
			p.NewPods.Pods += len(e.Pods)
		default:
			p.DeletedPods.Pods += len(e.Pods)
		}
	}
	p.Connections = p.Pods * max(p.Pods-1, 0)
}

// add counts the connection of flips.
func (o *Others) add(flips []Flip, outside bool) {
	n, allowed := flips[0].Connections, false
	for _, f := range flips {
		allowed = allowed || f.Before == explain.Allowed || f.After == explain.Allowed
	}
	if allowed {
		o.Allowed += n
	} else {
		o.Unknown += n
	}
	if outside {
		o.WithOutside += n
	}
}

// othersText returns a line about the connections of new pods, and a line about the connections of deleted
// pods.
func (p Plan) othersText() []string {
	var out []string
	line := func(o Others, title, allowed string) {
		if o.Pods == 0 {
			return
		}
		parts := []string{fmt.Sprintf("%s %d: %s %s", title, o.Pods, phrase.Count(o.Allowed, "connection"), allowed)}
		if o.WithOutside > 0 {
			parts[0] += fmt.Sprintf(", %d of them with addresses outside", o.WithOutside)
		}
		if o.Unknown > 0 {
			parts = append(parts, fmt.Sprintf("%d not known", o.Unknown))
		}
		if o.ByPolicy > 0 {
			parts = append(parts, fmt.Sprintf("policies of pods that stay let %d of them through", o.ByPolicy))
		}
		out = append(out, strings.Join(parts, "; ")+".")
	}
	line(p.NewPods, "NEW PODS", "allowed")
	line(p.DeletedPods, "DELETED PODS", "gone")
	return out
}
