package oracletest

import (
	stdcmp "cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/hnssim"
	"github.com/winnpm/winnpm/tool/plan"
)

// TestPlan: of a random change of the objects of a random cluster, a plan has the
// connections that flip by the oracle, pods and addresses outside alike, on every port that
// may matter, and has the writes that an agent then makes. From a dump of that agent the plan
// for a change of policies is the same.
func TestPlan(t *testing.T) {
	seen := map[string]int{}
	check(t, func(t *rapid.T) {
		g := gen.New(t, false)
		w := newWorld(t, setup{foreign: hnssim.DefaultForeign()})
		before := ofAllNodes(t, g)
		after := before
		policies := g.Flip("only policies change")
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			var kind string
			after, kind = g.Mutation(after, policies)
			after.NodeAddrs = nil
			seen[kind]++
		}
		world := worldOf(before)
		then := world
		if !policies {
			then = worldOf(after)
		}
		got, err := plan.New(w.t.Context(), world, changeOf(then, before, after))
		require.NoError(w.t, err)
		x := planned{w: w, before: before, after: after, plan: got, all: slices.Concat(got.Flips, got.Outside), seen: seen}
		// Which of several pods has an address depends on the node, and a plan is of all nodes.
		contested := contested(before) || contested(after)
		if policies || !contested {
			x.flips(slices.Concat(g.Probes(2), g.Probes(2), x.edges(t)))
		}
		if contested {
			return
		}

		w.start(before, true)
		if policies {
			x.fromDump()
			x.writes()
			return
		}
		old := w.state()
		w.plug(after, true)
		list := events(before, after, false)
		w.settle(w.tell(list, max(len(list), 1)))
		x.written(old, w.state())
	})
	for _, what := range []string{
		"blocked", "allowed", "with an address", "on some ports", "writes", "no writes",
		"pod created", "pod deleted", "pod relabelled", "namespace relabelled",
	} {
		ever(t, seen[what], "never seen: "+what)
	}
}

// fromDump plans the change from a dump of the agent.
func (x planned) fromDump() {
	world, err := cluster.FromDump(x.w.dp.Dump())
	require.NoError(x.w.t, err)
	got, err := plan.New(x.w.t.Context(), world, changeOf(world, x.before, x.after))
	require.NoError(x.w.t, err)
	// Rules of one place in all plans; a dump knows of its own node's writes alone.
	if d := cmp.Diff(x.plan, got, cmpopts.IgnoreUnexported(plan.Addresses{}), cmpopts.IgnoreFields(plan.Plan{}, "Nodes", "NodesSeen")); d != "" {
		x.w.fail(x.before, "from a dump it is another plan:\n%s", d)
	}
}

// ofAllNodes draws a cluster as a plan sees it: of all nodes at once, none of which may come in
// to its own pods whatever policies say, so that nothing flips there.
func ofAllNodes(t *rapid.T, g *gen.Gen) oracle.Cluster {
	c := replicate(t, g.Cluster())
	c.Node, c.NodeAddrs = "", nil
	return c
}

// contested reports whether several pods claim one address.
func contested(c oracle.Cluster) bool {
	seen := map[netip.Addr]bool{}
	return slices.ContainsFunc(c.Pods, func(pod corev1.Pod) bool {
		addr := oracle.Address(&pod)
		again := oracle.Member(&pod) && seen[addr]
		seen[addr] = seen[addr] || oracle.Member(&pod)
		return again
	})
}

// worldOf is what a plan knows of a cluster.
func worldOf(c oracle.Cluster) cluster.World {
	w := cluster.World{Now: c.Now}
	for name, addrs := range map[string][]netip.Addr{gen.Node: c.NodeAddrs, "n2": nil, "n3": nil} {
		w.Nodes = append(w.Nodes, cluster.Node{NodeDump: state.NodeDump{Name: name}, Internal: addrs})
	}
	for i := range c.Pods {
		p := &c.Pods[i]
		w.Pods = append(w.Pods, cluster.Pod{Pod: controllers.PodFrom(p, gen.Node), Node: p.Spec.NodeName})
	}
	for _, ns := range c.Namespaces {
		w.Namespaces = append(w.Namespaces, desired.Namespace{Name: ns.Name, Labels: ns.Labels})
	}
	for i := range c.Policies {
		w.Policies = append(w.Policies, &c.Policies[i])
	}
	return w
}

// changeOf is the way of a world from one cluster's policies to another's.
func changeOf(w cluster.World, before, after oracle.Cluster) cluster.Change {
	c := cluster.Change{After: w}
	for _, e := range events(before, after, false) {
		if name, ok := strings.CutPrefix(e.name, "policy "); ok {
			c.Named = append(c.Named, name)
		}
	}
	c.After.Policies = worldOf(after).Policies
	return c
}

// planned is a plan with what it is held against.
type planned struct {
	w             *world
	before, after oracle.Cluster
	plan          plan.Plan
	all           []plan.Flip
	seen          map[string]int
}

// edges draws some of the ports at which connections begin or cease to flip.
func (x planned) edges(t *rapid.T) []gen.Probe {
	ports := map[gen.Probe]bool{}
	for _, f := range x.all {
		for _, r := range f.Ports {
			for _, port := range []uint16{r.First, r.Last, max(r.First, 2) - 1, min(r.Last, 65534) + 1} {
				ports[gen.Probe{Protocol: protocolOf(r), Port: port}] = true
			}
		}
	}
	list := slices.SortedFunc(maps.Keys(ports), func(a, b gen.Probe) int {
		return stdcmp.Or(stdcmp.Compare(a.Protocol, b.Protocol), stdcmp.Compare(a.Port, b.Port))
	})
	if len(list) == 0 {
		return nil
	}
	return rapid.SliceOfN(rapid.SampledFrom(list), 1, 4).Draw(t, "edges")
}

// flips asks the oracle about every connection.
func (x planned) flips(probes []gen.Probe) {
	ends := slices.DeleteFunc(gen.Ends(x.before), func(addr netip.Addr) bool {
		old, now := oracle.Owner(x.before, addr), oracle.Owner(x.after, addr)
		return old == nil != (now == nil) || old != nil && (old.Namespace != now.Namespace || old.Name != now.Name)
	})
	for _, src := range ends {
		for _, dst := range ends {
			if src == dst {
				continue
			}
			for _, probe := range probes {
				old, now := verdictOf(x.before, src, dst, probe), verdictOf(x.after, src, dst, probe)
				f := x.find(src, dst, probe)
				switch {
				case old == now && f == nil:
				case old == now || f == nil || f.Before != old || f.After != now:
					x.w.fail(x.after, "%v -> %v %v: the oracle says %s -> %s, the plan %+v", src, dst, probe, old, now, f)
				default:
					x.check(f, src, dst, probe)
				}
			}
		}
	}
}

// check holds a flip's policies against the oracle: at the ends that say
// otherwise now, those that isolate when it is blocked, or let it through.
func (x planned) check(f *plan.Flip, src, dst netip.Addr, probe gen.Probe) {
	x.seen[string(f.After)]++
	if len(f.Ports) == 1 && f.Ports[0].First > 1 {
		x.seen["on some ports"]++
	}
	if oracle.Owner(x.before, src) == nil || oracle.Owner(x.before, dst) == nil {
		x.seen["with an address"]++
	}
	if oracle.Doubtful(x.after, src) || oracle.Doubtful(x.after, dst) {
		return // several policies decide together there, which none of them does alone
	}
	sizes := map[string]int{}
	for _, wl := range x.plan.Workloads {
		sizes[wl.Name] = len(wl.Pods)
	}
	if from, to := sizes[f.From], sizes[f.To]; f.From == f.To {
		require.Equal(x.w.t, from*(from-1), f.Connections)
	} else if from > 0 && to > 0 {
		require.Equal(x.w.t, from*to, f.Connections)
	}
	allowed := f.After == explain.Allowed
	old, now := sidesOf(x.before, src, dst, probe), sidesOf(x.after, src, dst, probe)
	by := map[string]bool{}
	ofChange := map[string]bool{}
	for _, np := range x.after.Policies {
		alone := x.after
		alone.Policies = []networkingv1.NetworkPolicy{np}
		name := np.Namespace + "/" + np.Name
		for i, side := range sidesOf(alone, src, dst, probe) {
			if now[i].Allowed == old[i].Allowed || now[i].Allowed != allowed || !side.Isolated || allowed && !side.Allowed {
				continue
			}
			by[name] = true
			if slices.ContainsFunc(x.plan.Policies, func(c plan.PolicyChange) bool { return c.Policy == name && c.Change != "unchanged" }) {
				ofChange[name] = true
			}
		}
	}
	if len(ofChange) > 0 {
		by = ofChange
	}
	if !slices.Equal(f.By, slices.Sorted(maps.Keys(by))) {
		x.w.fail(x.after, "%v -> %v %v: by %v, not as the plan has it: %+v", src, dst, probe, by, f)
	}
}

// find returns the flip of a connection, nil when it does not flip.
func (x planned) find(src, dst netip.Addr, probe gen.Probe) *plan.Flip {
	from, to := x.end(src), x.end(dst)
	for _, f := range x.all {
		covers := func(r explain.Range) bool {
			return protocolOf(r) == probe.Protocol && r.First <= probe.Port && probe.Port <= r.Last
		}
		if f.From == from && f.To == to && slices.ContainsFunc(f.Ports, covers) {
			return &f
		}
	}
	return nil
}

// end is what a plan calls an address.
func (x planned) end(addr netip.Addr) string {
	pod := oracle.Owner(x.before, addr)
	for _, wl := range x.plan.Workloads {
		if pod != nil && slices.Contains(wl.Pods, pod.Namespace+"/"+pod.Name) {
			return wl.Name
		}
	}
	for _, a := range x.plan.Addresses {
		in := func(block string) bool { return netip.MustParsePrefix(block).Contains(addr) }
		if pod == nil && slices.ContainsFunc(a.Blocks, in) {
			return a.Name
		}
	}
	x.w.fail(x.before, "%v is no end of the plan", addr)
	return ""
}

// writes lets the agent of the node do what was planned.
func (x planned) writes() {
	before := x.w.state()
	tx := dataplane.NewTransaction()
	for _, e := range events(x.before, x.after, false) {
		e.tell(tx)
	}
	report := x.w.apply(tx)
	require.True(x.w.t, report.Converged())
	after := x.w.state()
	i := slices.IndexFunc(x.plan.Nodes, func(n plan.NodeChange) bool { return n.Node == gen.Node })
	if i < 0 {
		x.seen["no writes"]++
		for op := range report.Calls {
			require.False(x.w.t, strings.HasPrefix(op, "SetPolicy/") || strings.HasPrefix(op, "ACL/"), "%s was not planned", op)
		}
		return
	}
	x.seen["writes"]++
	require.Equal(x.w.t, report.Calls, x.plan.Nodes[i].Calls)
	x.written(before, after)
}

// written holds what an agent has written against what was planned.
func (x planned) written(before, after hnsState) {
	var n plan.NodeChange
	for _, planned := range x.plan.Nodes {
		if planned.Node == gen.Node {
			n = planned
		}
	}
	changes := map[string]string{}
	for _, s := range n.Sets {
		changes[s.Name] = s.Change
	}
	want := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(before.Sets)) {
		if _, ok := after.Sets[id]; !ok {
			want[before.Sets[id].Name] = "removed"
		}
	}
	for id, s := range after.Sets {
		if old, ok := before.Sets[id]; !ok {
			want[s.Name] = "added"
		} else if !cmp.Equal(old, s) {
			want[s.Name] = "changed"
		}
	}
	require.Equal(x.w.t, want, changes)
	endpoints := 0
	for id, acls := range after.ACLs {
		if !cmp.Equal(before.ACLs[id], acls, cmpopts.EquateEmpty()) {
			endpoints++
		}
	}
	require.Equal(x.w.t, endpoints, n.Endpoints)
}

func verdictOf(c oracle.Cluster, src, dst netip.Addr, probe gen.Probe) explain.Verdict {
	sides := sidesOf(c, src, dst, probe)
	return verdictWord(sides[0].Allowed && sides[1].Allowed)
}

func sidesOf(c oracle.Cluster, src, dst netip.Addr, probe gen.Probe) [2]oracle.Side {
	ingress, egress := oracle.Verdict(c, src, dst, probe.Protocol, probe.Port)
	return [2]oracle.Side{ingress, egress}
}

func protocolOf(r explain.Range) corev1.Protocol { return corev1.Protocol(r.Protocol) }
