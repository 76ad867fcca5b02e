package whatif

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// Flip is a change of the verdict of connections from one end to the other.
type Flip struct {
	From   string          `json:"from"` // a workload, or addresses
	To     string          `json:"to"`
	Ports  []explain.Range `json:"ports"` // all of which flip so
	Before explain.Verdict `json:"before"`
	After  explain.Verdict `json:"after"`
	// By are the policies that decide after the change: those that isolate when the
	// connection is blocked, those that allow it when it is allowed, and none when none
	// isolates any more. When policies of the change are among them, By has those alone.
	By []string `json:"by"`
	// Connections is the number of pairs of pods that flip; with addresses, of pods.
	Connections int `json:"connections"`
}

// end is a workload or addresses, with what stands for it.
type end struct {
	name    string
	pod     string  // or an address
	second  string  // another pod of the workload, if there is one
	pods    int     // 0: it is addresses
	changed [2]bool // its rules for a direction, or members of sets that these name
	there   [2]bool // before and after
}

// mayFlip reports whether connections of two ends can be others: one of them is not there before and
// after, or what the rules of one say is not the same.
func mayFlip(from, to *end) bool {
	return from.changed[out] || to.changed[in] || !from.stays() || !to.stays()
}

// stays reports whether the end exists both before and after the change.
func (e *end) stays() bool { return e.there == [2]bool{true, true} }

// The directions of an end.
const (
	out = iota
	in
)

// comparison is a cluster before a change and after it.
type comparison struct {
	before, after *explain.Cluster
	workloads     []explain.Workload
	addresses     []Addresses
	ends          []end
	changed       map[string]bool // pods on whose node something may be written for them
	touched       map[string]bool // policies of the change
}

func newComparison(before, after *explain.Cluster, policies []PolicyChange) *comparison {
	x := &comparison{before: before, after: after, addresses: outside(before, after), changed: map[string]bool{}, touched: map[string]bool{}}
	sets := changedSets(before.Dump(), after.Dump())
	for _, p := range policies {
		x.touched[p.Policy] = p.Change != Unchanged
	}
	old, now := endpointsOf(before), endpointsOf(after)
	for _, w := range workloads(before, after) {
		x.workloads = append(x.workloads, w.Workload)
		e := end{name: w.Name, pod: w.Pods[0], second: w.Pods[min(1, len(w.Pods)-1)], pods: len(w.Pods), there: w.there}
		for _, pod := range w.Pods {
			x.changed[pod] = !e.stays() || differ(old[pod], now[pod], sets, hns.In) || differ(old[pod], now[pod], sets, hns.Out)
		}
		for side, dir := range []hns.Direction{out: hns.Out, in: hns.In} {
			e.changed[side] = differ(old[e.pod], now[e.pod], sets, dir)
		}
		x.ends = append(x.ends, e)
	}
	for _, a := range x.addresses {
		x.ends = append(x.ends, end{name: a.Name, pod: a.one.String(), there: [2]bool{true, true}})
	}
	return x
}

// differ reports whether endpoints got other rules of a direction, or rules that name one of the sets.
func differ(old, now []*state.Endpoint, sets map[string]bool, dir hns.Direction) bool {
	rules := func(eps []*state.Endpoint) [][]hns.ACL {
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

// changedSets returns the ids of the sets that have other members after a change, or nested sets that
// have. Rules that name new sets are new.
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

// flips fills in what flips. There may be as many questions as pairs of workloads times
// ports, so it ends with ctx.
func (p *Plan) flips(ctx context.Context, x *comparison) error {
	p.Workloads, p.Addresses = x.workloads, x.addresses
	p.count(x)
	p.Flips, p.Outside, p.NewConnections, p.DeletedConnections = []Flip{}, []Flip{}, []Flip{}, []Flip{}
	// Several groups of addresses are one connection of a workload. Their place is the first one's.
	outside, addresses := map[[2]int][]Flip{}, len(x.workloads)
	for i := range x.ends {
		for j := range x.ends {
			from, to := &x.ends[i], &x.ends[j]
			if !x.connect(i, j) || !mayFlip(from, to) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			flips, admitted := x.flips(from, to, i == j)
			if from.pods == 0 || to.pods == 0 {
				k := [2]int{min(i, addresses), min(j, addresses)}
				outside[k] = append(outside[k], flips...)
				continue
			}
			if others := p.note(both(from, to), false, flips); others != nil && admitted {
				others.ByPolicy += flips[0].Connections
			}
		}
	}
	for k, flips := range outside {
		p.note(both(&x.ends[k[0]], &x.ends[k[1]]), true, flips)
	}
	for _, list := range [][]Flip{p.Flips, p.Outside, p.NewConnections, p.DeletedConnections} {
		slices.SortStableFunc(list, func(a, b Flip) int {
			return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
		})
	}
	return nil
}

// connect reports whether there are connections of one end to another one: addresses outside have
// none among themselves, nor has a pod to itself.
func (x *comparison) connect(i, j int) bool {
	return x.ends[i].pods+x.ends[j].pods > 0 && (i != j || x.ends[i].pods > 1)
}

// both reports whether two ends are there, before and after.
func both(from, to *end) [2]bool {
	return [2]bool{from.there[0] && to.there[0], from.there[1] && to.there[1]}
}

// note adds the flips of one connection to the list and the counts they belong to. It returns the
// counts of new or deleted pods, nil for pods that stay.
func (p *Plan) note(there [2]bool, outside bool, flips []Flip) (others *Others) {
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

// flips compares two ends on every port. It reports also whether a policy of the one that
// stays lets the other one through, which is new.
func (x *comparison) flips(from, to *end, within bool) (found []Flip, admitted bool) {
	connections := max(from.pods, 1) * max(to.pods, 1)
	source, destination := from.pod, to.pod
	if within {
		connections = from.pods * (from.pods - 1)
		destination = from.second
	}
	before := newConnection(x.before, source, destination, from.there[0] && to.there[0])
	after := newConnection(x.after, source, destination, from.there[1] && to.there[1])
	for _, r := range explain.Split(before.edges(), after.edges()) {
		old, now := before.ask(r), after.ask(r)
		if !flipped(old.verdict, now.verdict) {
			continue
		}
		admitted = admitted || x.admits(from, to, now)
		f := Flip{
			From: from.name, To: to.name, Ports: []explain.Range{r}, Before: old.verdict, After: now.verdict,
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
		found[i].Ports = joined(found[i].Ports)
	}
	return found, admitted
}

// by returns the policies that decide now, at the ends that decided otherwise
// before.
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

// answer is the verdict of a connection and what its ends say.
type answer struct {
	verdict explain.Verdict
	halves  [2]explain.Half
}

// connection is a pair of ends in a cluster.
type connection struct {
	pair    *explain.Pair
	without explain.Verdict // when pair is nil
}

// newConnection returns a pair of ends, both of which may be there, or not.
func newConnection(c *explain.Cluster, from, to string, there bool) connection {
	if !there {
		return connection{without: Absent}
	}
	source, err := c.End(from)
	destination, err2 := c.End(to)
	if err != nil || err2 != nil { // of a pod whose name means something else
		return connection{without: explain.Unknown}
	}
	return connection{pair: c.Pair(source, destination)}
}

// edges returns the ports at which the answer may change.
func (x connection) edges() explain.Edges {
	if x.pair == nil {
		return explain.Edges{}
	}
	return x.pair.Edges()
}

// ask asks about the first port of a range.
func (x connection) ask(r explain.Range) answer {
	if x.pair == nil {
		return answer{verdict: x.without}
	}
	egress, ingress := x.pair.Halves(r.First, r.Protocol)
	actual, _ := explain.Whole(egress, ingress)
	return answer{actual, [2]explain.Half{out: egress, in: ingress}}
}

// workload is one of two states of a cluster.
type workload struct {
	explain.Workload
	there [2]bool // before and after
}

// workloads returns those of two states of a cluster, sorted by name. Pods that are new or
// deleted are workloads of their own; a pod that got another address is one of each.
func workloads(before, after *explain.Cluster) []workload {
	old, now := addressesOf(before), addressesOf(after)
	var out []workload
	add := func(w explain.Workload, mark string, there [2]bool, has func(pod string) bool) {
		if w.Pods = slices.DeleteFunc(slices.Clone(w.Pods), func(pod string) bool { return !has(pod) }); len(w.Pods) > 0 {
			w.Name += mark
			out = append(out, workload{w, there})
		}
	}
	stays := func(pod string) bool { return old[pod] == now[pod] }
	moves := func(pod string) bool { return old[pod] != now[pod] }
	for _, w := range explain.Workloads(before, after) {
		add(w, "", [2]bool{true, true}, stays)
		add(w, " (deleted)", [2]bool{true, false}, moves)
	}
	if !maps.Equal(old, now) {
		for _, w := range explain.Workloads(after, before) {
			add(w, " (new)", [2]bool{false, true}, moves)
		}
	}
	slices.SortStableFunc(out, func(a, b workload) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// addressesOf returns the addresses that pods own.
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
