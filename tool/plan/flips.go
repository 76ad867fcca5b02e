package plan

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
)

// Flip is a changed verdict for connections from one end to another.
type Flip struct {
	From   string          `json:"from"` // a workload, or addresses
	To     string          `json:"to"`
	Ports  []explain.Range `json:"ports"` // all ports with this flip
	Before explain.Verdict `json:"before"`
	After  explain.Verdict `json:"after"`
	// By are the policies that decide after the change: the isolating policies if the connection is
	// blocked, or the policies that allow it; none if no policy isolates any more. If some of them are part
	// of the change, By lists only these.
	By []string `json:"by"`
	// Connections is the number of pairs of pods that flip, or of pods if the other end is addresses.
	Connections int `json:"connections"`
}

// end is a workload, or a group of addresses outside, of which Pods has one.
type end struct {
	explain.Workload
	outside bool
	changed [2]bool // by direction: its rules, or the sets that they name, change
	there   [2]bool // whether it exists before and after
}

// stays reports whether the end exists before and after the change.
func (e *end) stays() bool { return e.there == [2]bool{true, true} }

// The indexes of end.changed and answer.halves.
const (
	out = iota
	in
)

// comparison compares a cluster before and after a change.
type comparison struct {
	before, after *explain.Cluster
	addresses     []Addresses
	ends          []end           // workloads, then addresses
	changed       map[string]bool // pods for which their node's agent may write something
	touched       map[string]bool // policies that the change modifies
}

func newComparison(before, after *explain.Cluster, policies []PolicyChange) *comparison {
	x := &comparison{before: before, after: after, addresses: outside(before, after), ends: workloads(before, after), changed: map[string]bool{}, touched: map[string]bool{}}
	for _, p := range policies {
		x.touched[p.Policy] = p.Change != cluster.Unchanged
	}
	sets, old, now := changedSets(before.Dump(), after.Dump()), endpointsOf(before), endpointsOf(after)
	for i := range x.ends {
		e := &x.ends[i]
		for _, pod := range e.Pods {
			for side, dir := range []hns.DirectionType{out: hns.Out, in: hns.In} {
				differs := differ(old[pod], now[pod], sets, dir)
				e.changed[side] = e.changed[side] || differs
				x.changed[pod] = x.changed[pod] || differs || !e.stays()
			}
		}
	}
	for _, a := range x.addresses {
		x.ends = append(x.ends, end{Workload: explain.Workload{Name: a.Name, Pods: []string{a.one.String()}}, outside: true, there: [2]bool{true, true}})
	}
	return x
}

// mayFlip reports whether connections between two ends may flip. It ignores connections between addresses
// outside, and of a pod to itself.
func mayFlip(from, to *end) bool {
	if from.outside && to.outside || from == to && len(from.Pods) < 2 {
		return false
	}
	return from.changed[out] || to.changed[in] || !from.stays() || !to.stays()
}

// differ reports whether endpoints have other rules for a direction after the change, or rules that name
// one of the changed sets.
func differ(old, now []*state.EndpointDump, sets map[string]bool, dir hns.DirectionType) bool {
	rules := func(eps []*state.EndpointDump) [][]hns.ACL {
		var all [][]hns.ACL
		for _, ep := range eps {
			all = append(all, slices.DeleteFunc(slices.Clone(ep.Applied), func(a hns.ACL) bool { return a.Direction != dir }))
		}
		return all
	}
	names := func(a hns.ACL) bool {
		return slices.ContainsFunc(a.SetIDs(), func(id string) bool { return sets[id] })
	}
	before, after := rules(old), rules(now)
	return !slices.EqualFunc(before, after, func(a, b []hns.ACL) bool { return missing(a, b)+missing(b, a) == 0 }) ||
		slices.ContainsFunc(slices.Concat(after...), names)
}

// changedSets returns the ids of existing sets whose members change, and of nested sets that have such a
// set as a member. New sets need not be included, as rules that name them are new.
func changedSets(before, after *state.Dump) map[string]bool {
	members, changed, out := map[string][]string{}, map[string]bool{}, map[string]bool{}
	for _, s := range before.Sets {
		members[s.Name] = s.Members
	}
	for _, s := range after.Sets {
		was, ok := members[s.Name]
		changed[s.Name] = ok && missing(was, s.Members)+missing(s.Members, was) > 0
	}
	for _, s := range after.Sets {
		out[s.ID] = changed[s.Name] || slices.ContainsFunc(s.Members, func(name string) bool { return changed[name] })
	}
	return out
}

// flips computes the flips and their counts. It checks ctx, as it may have to compare every pair of
// workloads on many ports.
func (p *Plan) flips(ctx context.Context, x *comparison) error {
	p.Flips, p.Outside, p.NewConnections, p.DeletedConnections = []Flip{}, []Flip{}, []Flip{}, []Flip{}
	p.Addresses = x.addresses
	p.count(x)
	// All groups of addresses count as one end, with the index of the first group.
	outside, addresses := map[[2]int][]Flip{}, len(p.Workloads)
	for i := range x.ends {
		for j := range x.ends {
			from, to := &x.ends[i], &x.ends[j]
			if !mayFlip(from, to) {
				continue
			}
			flips, admitted, err := x.flips(from, to)
			if err := cmp.Or(err, ctx.Err()); err != nil {
				return err
			}
			if from.outside || to.outside {
				k := [2]int{min(i, addresses), min(j, addresses)}
				outside[k] = append(outside[k], flips...)
				continue
			}
			if others := p.record(both(from, to), false, flips); others != nil && admitted {
				others.ByPolicy += flips[0].Connections
			}
		}
	}
	for k, flips := range outside {
		p.record(both(&x.ends[k[0]], &x.ends[k[1]]), true, flips)
	}
	for _, list := range [][]Flip{p.Flips, p.Outside, p.NewConnections, p.DeletedConnections} {
		slices.SortStableFunc(list, func(a, b Flip) int {
			return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
		})
	}
	return nil
}

// both reports whether both ends exist, before and after.
func both(from, to *end) [2]bool {
	return [2]bool{from.there[0] && to.there[0], from.there[1] && to.there[1]}
}

// record adds the flips between two ends to a list and to the counts. It returns the counts for new or
// deleted pods, or nil if both ends stay.
func (p *Plan) record(there [2]bool, outside bool, flips []Flip) (others *Others) {
	if len(flips) == 0 {
		return nil
	}
	list, tally := &p.Flips, &p.Between
	if outside {
		list, tally = &p.Outside, &p.WithOutside
	}
	switch there {
	case [2]bool{true, true}:
		tally.add(flips)
		p.add(flips)
	case [2]bool{false, true}:
		list, others = &p.NewConnections, &p.NewPods
	default:
		list, others = &p.DeletedConnections, &p.DeletedPods
	}
	if *list = append(*list, flips...); others != nil {
		others.add(flips, outside)
	}
	return others
}

// flips compares the verdicts between two ends on every port. It also reports whether one end is new and a
// policy of the other, existing end allows the connection.
func (x *comparison) flips(from, to *end) (found []Flip, admitted bool, err error) {
	connections := len(from.Pods) * len(to.Pods)
	source, destination := from.Pods[0], to.Pods[0]
	if from == to {
		connections = len(from.Pods) * (len(from.Pods) - 1)
		destination = from.Pods[1]
	}
	var pairs [2]*explain.Pair // nil if an end is absent
	var edges []explain.Edges
	for i, c := range []*explain.Cluster{x.before, x.after} {
		if from.there[i] && to.there[i] {
			if pairs[i], err = c.Pair(source, destination); err != nil {
				return nil, false, err
			}
			edges = append(edges, pairs[i].Edges())
		}
	}
	for _, r := range explain.Split(edges...) {
		old, now := ask(pairs[0], r), ask(pairs[1], r)
		if !flipped(old.verdict, now.verdict) {
			continue
		}
		admitted = admitted || x.admits(from, to, now)
		f := Flip{
			From: from.Name, To: to.Name, Ports: []explain.Range{r}, Before: old.verdict, After: now.verdict,
			By: x.by(old, now), Connections: connections,
		}
		same := func(g Flip) bool { return g.Before == f.Before && g.After == f.After && slices.Equal(g.By, f.By) }
		if i := slices.IndexFunc(found, same); i >= 0 {
			found[i].Ports = append(found[i].Ports, r)
		} else {
			found = append(found, f)
		}
	}
	for i := range found {
		found[i].Ports = explain.JoinRanges(found[i].Ports)
	}
	return found, admitted, nil
}

// by returns the policies that decide after the change at the ends whose verdict changed.
func (x *comparison) by(old, now answer) []string {
	by := []string{}
	for side, half := range now.halves {
		if half.Actual != old.halves[side].Actual && half.Actual == now.verdict {
			by = append(by, x.after.Policies(half)...)
		}
	}
	slices.Sort(by)
	by = slices.Compact(by)
	if slices.ContainsFunc(by, func(p string) bool { return x.touched[p] }) {
		by = slices.DeleteFunc(by, func(p string) bool { return !x.touched[p] })
	}
	return by
}

// answer is the verdict of a connection and the verdicts at its ends.
type answer struct {
	verdict explain.Verdict
	halves  [2]explain.Half
}

// ask returns the answer for the first port of a range. A nil pair is one with an absent end.
func ask(p *explain.Pair, r explain.Range) answer {
	if p == nil {
		return answer{verdict: Absent}
	}
	egress, ingress := p.Halves(r.First, r.Protocol)
	return answer{explain.Worse(egress.Actual, ingress.Actual), [2]explain.Half{out: egress, in: ingress}}
}

// workloads returns the workloads of two states of a cluster as ends, sorted by name. New and deleted pods
// are ends of their own. A pod with a changed address counts as a deleted and a new pod.
func workloads(before, after *explain.Cluster) []end {
	old, now := addressesOf(before), addressesOf(after)
	var out []end
	add := func(w explain.Workload, mark string, there [2]bool, stays bool) {
		w.Pods = slices.DeleteFunc(slices.Clone(w.Pods), func(pod string) bool { return (old[pod] == now[pod]) != stays })
		if len(w.Pods) > 0 {
			w.Name += mark
			out = append(out, end{Workload: w, there: there})
		}
	}
	for _, w := range explain.Workloads(before, after) {
		add(w, "", [2]bool{true, true}, true)
		add(w, " (deleted)", [2]bool{true, false}, false)
	}
	if !maps.Equal(old, now) {
		for _, w := range explain.Workloads(after, before) {
			add(w, " (new)", [2]bool{false, true}, false)
		}
	}
	slices.SortStableFunc(out, func(a, b end) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func addressesOf(c *explain.Cluster) map[string]string {
	out := map[string]string{}
	d := c.Dump()
	for i := range d.Pods {
		if addr, ok := c.Owns(&d.Pods[i]); ok {
			out[d.Pods[i].Pod] = addr.String()
		}
	}
	return out
}
