package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// Plan describes the effects of a change. Its lists are sorted.
type Plan struct {
	Policies []PolicyChange `json:"policies"`
	// Objects of the change are those that are no policies.
	Objects []ObjectChange `json:"objects"`
	// Pods own an address in the pod network, before and after. A connection is an ordered
	// pair of them; it flips when it does on any port.
	Pods        int `json:"pods"`
	Connections int `json:"connections"`
	// Tally counts everything that flips: Between pods, and WithOutside, where a pod with any
	// addresses is one connection in each direction.
	Tally
	Between     Tally `json:"betweenPods"`
	WithOutside Tally `json:"withOutside"`
	// NewPods and DeletedPods count the connections of pods that are not there before, or
	// afterwards. No such connection flips.
	NewPods     Others `json:"newPods"`
	DeletedPods Others `json:"deletedPods"`
	// Workloads and Addresses are the ends of flips, by name.
	Workloads []explain.Workload `json:"workloads"`
	Addresses []Addresses        `json:"addresses"`
	Flips     []Flip             `json:"flips"`   // between pods
	Outside   []Flip             `json:"outside"` // with addresses that are no pod's
	// NewConnections and DeletedConnections are those of NewPods and DeletedPods.
	NewConnections     []Flip `json:"newConnections"`
	DeletedConnections []Flip `json:"deletedConnections"`
	// Nodes are those on which something is written, of NodesSeen.
	Nodes     []NodeChange `json:"nodes"`
	NodesSeen int          `json:"nodesSeen"`
	// Warnings name the parts of the policies that cannot be expressed or programmed.
	Warnings []state.Warning `json:"warnings"`
}

// Tally counts connections that flip, each once, whatever the number of its ports.
type Tally struct {
	Flipped int `json:"flipped"`
	Opened  int `json:"opened"`            // on some port
	Blocked int `json:"blocked"`           // on some port
	Unknown int `json:"unknown,omitempty"` // on some port the verdict afterwards is not known
}

// add counts the flips of one pair of ends.
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

// New plans a change of a world. It fails with ErrNoNodes when it cannot know what a policy means.
func New(ctx context.Context, w World, c Change) (Plan, error) {
	if err := w.checkPeers(c); err != nil {
		return Plan{}, err
	}
	policies := w.classify(c)
	missing := w.noNamespaces(c, policies)
	b := policy.DefaultBudgets()
	w.Policies, c.After.Policies = b.Fit(w.Policies), b.Fit(c.After.Policies)
	before, after, err := w.everywhere(ctx, c)
	if err != nil {
		return Plan{}, err
	}

	now := idle(after.Dump())
	for i := range policies {
		policies[i].SelectsNothing = now[policies[i].Policy]
	}
	if len(c.Objects) > 0 {
		policies = w.noteLost(policies, idle(before.Dump()), now)
	}
	said := slices.Concat(w.Warnings, missing, c.Warnings, warnings(before.Dump().Warnings, after.Dump().Warnings, c))
	objects := append([]ObjectChange{}, c.Objects...)
	slices.SortFunc(objects, func(a, b ObjectChange) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object))
	})
	plan := Plan{Policies: policies, Objects: objects, Warnings: append([]state.Warning{}, said...), NodesSeen: len(c.After.Nodes), Nodes: []NodeChange{}}
	x := newComparison(before, after, policies)
	if err := plan.flips(ctx, x); err != nil {
		return Plan{}, err
	}
	writes := map[string]bool{} // nodes on which something may be written
	for _, p := range slices.Concat(w.Pods, c.After.Pods) {
		writes[p.Node] = writes[p.Node] || x.changed[p.Key().String()]
	}
	for _, node := range c.After.Nodes {
		if !writes[node.Name] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return Plan{}, err
		}
		n, err := w.changeNode(ctx, node, c)
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

// everywhere returns the cluster before a change and after it. Verdicts are of the whole
// cluster: every pod is on one node, whose addresses may not come in beside the policies.
func (w World) everywhere(ctx context.Context, c Change) (before, after *explain.Cluster, err error) {
	n, _, err := w.Simulate(ctx, Setup{Local: func(Pod) bool { return true }, Unchecked: true})
	if err != nil {
		return nil, nil, err
	}
	was := n.Dataplane.Snapshot()
	if _, err := n.program(ctx, c.After); err != nil {
		return nil, nil, err
	}
	is := n.Dataplane.Snapshot()
	return explain.New(was.Dump()), explain.New(is.Dump()), nil
}

// Others counts the connections of pods that are new, or deleted, with every pod and with
// addresses outside: those that pass while they are there.
type Others struct {
	Pods    int `json:"pods"`
	Allowed int `json:"allowed"`           // on some port
	Unknown int `json:"unknown,omitempty"` // not known on some port, and allowed on none
	// WithOutside are those of Allowed and Unknown with addresses that are no pod's.
	WithOutside int `json:"withOutside"`
	// ByPolicy are those of Allowed that pass by a policy of a pod that stays: its peers
	// became more. Only new pods have them.
	ByPolicy int `json:"byPolicy"`
}

// Any reports whether anything flips, comes or goes.
func (p Plan) Any() bool {
	others := p.NewPods.Allowed + p.NewPods.Unknown + p.DeletedPods.Allowed + p.DeletedPods.Unknown
	return p.Flipped+others > 0
}

// Absent is the verdict of a connection of which an end is not there: a pod that is new or
// deleted.
const Absent explain.Verdict = "absent"

// flipped reports whether the verdict changes. A connection of an absent pod counts as blocked.
func flipped(old, now explain.Verdict) bool {
	nothing := func(v explain.Verdict) bool { return v == Absent || v == explain.Blocked }
	return old != now && (old != Absent && now != Absent || !nothing(old) || !nothing(now))
}

// admits reports whether a policy of the one end that stays lets the other one through.
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

// add counts one connection that passes on some port.
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

// othersText says in a line each what new pods may do, and what deleted ones did.
func (p Plan) othersText() []string {
	var out []string
	line := func(o Others, title, allowed string) {
		if o.Pods == 0 {
			return
		}
		parts := []string{fmt.Sprintf("%s %d: %s %s", title, o.Pods, cli.Count(o.Allowed, "connection"), allowed)}
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
