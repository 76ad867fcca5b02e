package oracletest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestExplain: of a random cluster an explanation says what the oracle says, by
// the same policy; its rules are those that allow, and its changes would help.
func TestExplain(t *testing.T) {
	check(t, func(t *rapid.T) {
		g := gen.New(t, false)
		w := newWorld(t, drawSetup(t))
		c := g.Cluster()
		w.start(c, true)
		w.explain(c, g.Probes(3), func(x explained) {
			x.sameAsOracle(x.side.Actual)
			x.sameAsOracle(x.side.Wanted)
			require.False(w.t, x.side.Pending, "everything is programmed")
			x.rulesAreThose()
			x.missesHelp()
			x.helpIsKnown()
		})
	})
}

// TestExplainTiers: with tiers an explanation names the rule that decided and those that
// passed the connection on, and its changes would help.
func TestExplainTiers(t *testing.T) {
	seen := map[string]int{}
	check(t, func(t *rapid.T) {
		g := gen.New(t, true)
		w := newWorld(t, drawSetup(t))
		c := g.Cluster()
		w.start(c, true)
		w.explain(c, g.Probes(3), func(x explained) {
			x.tiersAsOracle(x.side.Actual)
			x.tiersAsOracle(x.side.Wanted)
			seen["tier "+x.side.Wanted.Tier]++
			seen["change"] += len(x.side.Misses)
			x.missesHelp()
		})
	})
	for _, what := range []string{"tier Admin", "tier NetworkPolicy", "tier Baseline", "change"} {
		ever(t, seen[what], "never "+what)
	}
}

// tiersAsOracle wants the oracle's decision, where it knows one.
func (x explained) tiersAsOracle(s *explain.State) {
	want := explain.Decider{Policy: x.want.Policy, Tier: string(x.want.Tier)}
	switch {
	case x.want.Doubt:
		if s.Verdict == explain.Allowed && !x.want.Allowed {
			x.fail("explained as allowed, the oracle says %+v", x.want)
		}
		return
	case want.Tier != "":
		want.Rule = &x.want.Rule
	case want.Policy != "":
		want.Tier = "NetworkPolicy"
	}
	for _, p := range x.want.Passed {
		want.Passed = append(want.Passed, explain.Passed{Policy: p.Policy, Tier: string(p.Tier), Rule: p.Rule})
	}
	if diff := cmp.Diff(want, s.Decider); s.Verdict != verdictWord(x.want.Allowed) || diff != "" {
		x.fail("explained as %s, the oracle says %+v: %s", s.Verdict, x.want, diff)
	}
}

// TestExplainTroubled: when calls of HNS fail, an explanation tells what HNS
// does now from what it should do; it admits what it cannot know.
func TestExplainTroubled(t *testing.T) {
	differed, unknown := 0, 0
	check(t, func(t *rapid.T) {
		g := gen.New(t, false)
		w := newWorld(t, drawSetup(t))
		before := g.Cluster()
		w.start(before, true)
		after := w.changeInTrouble(t, g, before)
		w.explain(after, g.Probes(2), func(x explained) {
			x.sameAsOracle(x.side.Wanted)
			if x.side.Actual.Verdict == explain.Unknown {
				unknown++
				require.True(w.t, x.side.Pending)
				return
			}
			x.sameAsHNS()
			if x.side.Differs() {
				differed++
				require.True(w.t, x.side.Pending)
				require.Equal(w.t, w.now, x.side.Since, "it happened just now")
			}
		})
	})
	ever(t, differed, "HNS was never behind")
	ever(t, unknown, "no outcome was ever lost")
}

// changeInTrouble tells the agent a random change while calls of HNS fail, and returns the cluster
// afterwards.
func (w *world) changeInTrouble(t *rapid.T, g *gen.Gen, before oracle.Cluster) (after oracle.Cluster) {
	after = before
	g.Some(6, "change", func() { after, _ = g.Mutation(after, false) })
	after.Lost = w.lose(before, after)
	w.plug(after, true)
	tx := dataplane.NewTransaction()
	for _, e := range events(before, after, false) {
		e.tell(tx)
	}
	w.trouble(t)
	_, err := w.dp.ApplyDataplane(w.t.Context(), tx)
	require.NoError(w.t, err)
	return after
}

// trouble makes calls of HNS fail from now on.
func (w *world) trouble(t *rapid.T) {
	for range rapid.IntRange(1, 2).Draw(t, "faults") {
		w.sim.Inject(hnsfault.Fault{
			Op:    rapid.SampledFrom([]string{"SetPolicy/Add", "SetPolicy/Update", "ACL/Add", "ACL/Update", "Endpoint/Get"}).Draw(t, "op"),
			Nth:   rapid.IntRange(1, 2).Draw(t, "nth"),
			Times: -1,
			Mode:  rapid.SampledFrom([]hnsfault.Mode{hnsfault.Refuse, hnsfault.LoseReply}).Draw(t, "mode"),
		})
	}
}

// explained is one side of one answer, with what it is held against.
type explained struct {
	w        *world
	c        oracle.Cluster
	dump     state.Dump
	side     explain.Side
	dir      hns.DirectionType
	own      *corev1.Pod
	src, dst netip.Addr
	probe    gen.Probe
	want     oracle.Side
}

// explain asks about every ordered pair of addresses of which one is a pod of
// the node with an endpoint, and hands every side that is judged there to use.
func (w *world) explain(c oracle.Cluster, probes []gen.Probe, use func(explained)) {
	dump := w.dp.Dump()
	for _, src := range gen.Ends(c) {
		for _, dst := range gen.Ends(c) {
			for _, probe := range probes {
				a, err := explain.Explain(dump, explain.Question{
					From: src.String(), To: dst.String(), Port: probe.Port, Protocol: policy.Protocol(probe.Protocol),
				}, nil)
				require.NoError(w.t, err)
				ingress, egress := oracle.Verdict(c, src, dst, probe.Protocol, probe.Port)
				if src == dst { // nobody filters it, whatever HNS has
					require.True(w.t, ingress.Allowed && egress.Allowed && a.Ingress.Judged && a.Egress.Judged)
					require.Equal(w.t, explain.Allowed, a.Verdict)
					continue
				}
				for _, x := range []explained{
					{side: a.Ingress, dir: hns.In, own: ownerOf(c, dst), want: ingress},
					{side: a.Egress, dir: hns.Out, own: ownerOf(c, src), want: egress},
				} {
					x.w, x.c, x.dump, x.src, x.dst, x.probe = w, c, dump, src, dst, probe
					if x.own == nil {
						require.True(w.t, x.side.Judged && x.side.Actual.Verdict == explain.Allowed, "what is no pod filters nothing")
						continue
					}
					require.Equal(w.t, x.own.Namespace+"/"+x.own.Name, x.side.Pod)
					if x.own.Spec.NodeName != gen.Node {
						require.False(w.t, x.side.Judged)
					}
					if x.side.Judged {
						use(x)
					}
				}
			}
		}
	}
}

// ownerOf returns the pod that an explanation takes an address for: a lost one has a name of its own.
func ownerOf(c oracle.Cluster, addr netip.Addr) *corev1.Pod {
	pod := oracle.LostAt(c, addr)
	if pod == nil {
		return oracle.Owner(c, addr)
	}
	named := pod.DeepCopy()
	named.Name += fmt.Sprintf(" (deleted, had %s)", addr)
	return named
}

func (x explained) fail(format string, args ...any) {
	x.w.fail(x.c, "%s %v -> %v %d/%s: %s\n%+v", x.dir, x.src, x.dst, x.probe.Port, x.probe.Protocol, fmt.Sprintf(format, args...), x.side)
}

func verdictWord(allowed bool) explain.Verdict {
	if allowed {
		return explain.Allowed
	}
	return explain.Blocked
}

func (x explained) sameAsOracle(s *explain.State) {
	if s.Verdict != verdictWord(x.want.Allowed) || s.Policy != x.want.Policy {
		x.fail("explained as %s by %q, the oracle says %+v", s.Verdict, s.Policy, x.want)
	}
}

// sameAsHNS compares with the simulator: the pod's endpoints that deny decide.
func (x explained) sameAsHNS() {
	allowed := true
	for _, p := range x.dump.Pods {
		if p.Pod != x.side.Pod {
			continue
		}
		for _, id := range p.Endpoints {
			v, err := x.w.sim.Trace(id, x.dir, hnssim.Packet{Src: x.src, Dst: x.dst, Protocol: protocolNumbers[x.probe.Protocol], DstPort: x.probe.Port})
			if errors.Is(err, hns.ErrNotFound) {
				return // gone, and the dataplane has not found out yet
			}
			require.NoError(x.w.t, err)
			allowed = allowed && v.Allowed
		}
	}
	if x.side.Actual.Verdict != verdictWord(allowed) {
		x.fail("explained as %s, HNS allows it: %v", x.side.Actual.Verdict, allowed)
	}
}

// verdict asks the oracle about the side in another cluster or to another port.
func (x explained) verdict(c oracle.Cluster, probe gen.Probe) oracle.Side {
	ingress, egress := oracle.Verdict(c, x.src, x.dst, probe.Protocol, probe.Port)
	if x.dir == hns.In {
		return ingress
	}
	return egress
}

// rulesAreThose: every rule that is said to allow does so alone, and no rule that
// is said not to.
func (x explained) rulesAreThose() {
	for _, r := range slices.Concat(x.side.Actual.Rules, x.side.Actual.Tried) {
		holds := !slices.ContainsFunc(r.Checks, func(c explain.Check) bool { return !c.OK })
		decides := slices.ContainsFunc(x.side.Actual.Rules, func(d explain.Rule) bool { return d.ACL == r.ACL })
		if decides != holds {
			x.fail("rule %+v", r)
		}
		if r.Policy == "" {
			continue
		}
		require.NotEmpty(x.w.t, r.Path)
		for _, path := range r.Path {
			alone := x.edit(func(c *oracle.Cluster) {
				c.Policies = slices.DeleteFunc(c.Policies, func(np networkingv1.NetworkPolicy) bool { return np.Namespace+"/"+np.Name != r.Policy })
				keep(&c.Policies[0].Spec, path)
			})
			side := x.verdict(alone, x.probe)
			if !side.Isolated {
				x.fail("%s does not isolate", r.Policy)
			}
			// One rule may be several ACLs: what fails does not tell of the others.
			if holds && !side.Allowed {
				x.fail("%s %s is said to allow", r.Policy, path)
			}
		}
	}
}

// keep leaves a policy one rule.
func keep(spec *networkingv1.NetworkPolicySpec, path string) {
	var i int
	if _, err := fmt.Sscanf(path, "spec.ingress[%d]", &i); err == nil {
		spec.Ingress = spec.Ingress[i : i+1]
	} else if _, err := fmt.Sscanf(path, "spec.egress[%d]", &i); err == nil {
		spec.Egress = spec.Egress[i : i+1]
	}
}

// edit returns a changed copy of the cluster.
func (x explained) edit(change func(*oracle.Cluster)) oracle.Cluster {
	c := oracle.Cluster{NodeAddrs: x.c.NodeAddrs, Node: x.c.Node, Now: x.c.Now}
	for i := range x.c.Namespaces {
		c.Namespaces = append(c.Namespaces, *x.c.Namespaces[i].DeepCopy())
	}
	for i := range x.c.Pods {
		c.Pods = append(c.Pods, *x.c.Pods[i].DeepCopy())
	}
	for i := range x.c.Policies {
		c.Policies = append(c.Policies, *x.c.Policies[i].DeepCopy())
	}
	c.ClusterPolicies, c.Nodes = x.c.ClusterPolicies, x.c.Nodes
	change(&c)
	return c
}

// relabel returns the cluster with another label; nil removes it.
func (x explained) relabel(kind explain.Kind, object, key string, value *string) oracle.Cluster {
	return x.edit(func(c *oracle.Cluster) {
		set := func(l *map[string]string) {
			if *l == nil {
				*l = map[string]string{}
			}
			delete(*l, key)
			if value != nil {
				(*l)[key] = *value
			}
		}
		for i := range c.Namespaces {
			if kind == explain.NamespaceLabel && c.Namespaces[i].Name == object {
				set(&c.Namespaces[i].Labels)
			}
		}
		for i := range c.Pods {
			if kind != explain.NamespaceLabel && c.Pods[i].Namespace+"/"+c.Pods[i].Name == object {
				set(&c.Pods[i].Labels)
			}
		}
	})
}

// missesHelp: with each of the changes the oracle allows it.
func (x explained) missesHelp() {
	if x.want.Allowed && !x.want.Doubt {
		require.Empty(x.w.t, x.side.Misses)
	}
	for _, m := range x.side.Misses {
		switch m.Kind {
		case explain.PodLabel, explain.NamespaceLabel, explain.SubjectLabel:
			value := &m.Value
			if m.Remove {
				value = nil
			}
			if !x.verdict(x.relabel(m.Kind, m.Object, m.Key, value), x.probe).Allowed {
				x.fail("%s does not help", m.Words)
			}
		case explain.PortNumber:
			for _, p := range m.Ports {
				for _, number := range []uint16{max(p.First, 1), max(p.Last, 1)} {
					if !x.verdict(x.c, gen.Probe{Protocol: corev1.Protocol(p.Protocol), Port: number}).Allowed {
						x.fail("port %+v does not help", p)
					}
				}
			}
		default: // of another pod or address
		}
	}
}

// helpIsKnown: every single label or port with which the oracle allows it is
// among the changes.
func (x explained) helpIsKnown() {
	if x.want.Allowed || oracle.Doubtful(x.c, x.src) || oracle.Doubtful(x.c, x.dst) { // then nothing is suggested
		return
	}
	known := func(kind explain.Kind, of func(explain.Miss) bool) bool {
		return slices.ContainsFunc(x.side.Misses, func(m explain.Miss) bool { return m.Kind == kind && of(m) })
	}
	for _, probe := range []gen.Probe{{Protocol: "TCP", Port: 80}, {Protocol: "UDP", Port: 53}, {Protocol: "TCP", Port: 8080}, {Protocol: "SCTP", Port: 1}} {
		covers := func(m explain.Miss) bool {
			return slices.ContainsFunc(m.Ports, func(p policy.Port) bool {
				return p.Protocol == policy.Protocol(probe.Protocol) && (p.First == 0 || p.First <= probe.Port && probe.Port <= p.Last)
			})
		}
		if x.verdict(x.c, probe).Allowed && !known(explain.PortNumber, covers) {
			x.fail("port %v is not known to help", probe)
		}
	}
	peer := oracle.Owner(x.c, x.src)
	if x.dir == hns.Out {
		peer = oracle.Owner(x.c, x.dst)
	}
	pool := labelPool(x.c)
	for _, label := range pool {
		ofLabel := func(m explain.Miss) bool { return m.Key == label.Namespace }
		if peer != nil {
			if c := x.relabel(explain.PodLabel, peer.Namespace+"/"+peer.Name, label.Namespace, &label.Name); x.verdict(c, x.probe).Allowed && !known(explain.PodLabel, ofLabel) {
				x.fail("label %s=%s of the other pod is not known to help", label.Namespace, label.Name)
			}
			if c := x.relabel(explain.NamespaceLabel, peer.Namespace, label.Namespace, &label.Name); x.verdict(c, x.probe).Allowed && !known(explain.NamespaceLabel, ofLabel) {
				x.fail("label %s=%s of the other namespace is not known to help", label.Namespace, label.Name)
			}
		}
		c := x.relabel(explain.SubjectLabel, x.side.Pod, label.Namespace, &label.Name)
		if side := x.verdict(c, x.probe); side.Allowed && side.Policy != "" &&
			!known(explain.SubjectLabel, func(m explain.Miss) bool { return m.Key == label.Namespace && m.Policy == side.Policy }) {
			x.fail("label %s=%s, for which %s selects the pod, is not known to help", label.Namespace, label.Name, side.Policy)
		}
	}
}

// labelPool returns labels that objects of the cluster have, as key and value.
func labelPool(c oracle.Cluster) []types.NamespacedName {
	seen := map[types.NamespacedName]bool{}
	add := func(l map[string]string) {
		for k, v := range l {
			seen[types.NamespacedName{Namespace: k, Name: v}] = true
		}
	}
	for _, ns := range c.Namespaces {
		add(ns.Labels)
	}
	for i := range c.Pods {
		add(c.Pods[i].Labels)
	}
	for _, np := range c.Policies {
		add(np.Spec.PodSelector.MatchLabels)
		for _, r := range np.Spec.Ingress {
			for _, p := range r.From {
				if p.PodSelector != nil {
					add(p.PodSelector.MatchLabels)
				}
			}
		}
	}
	var out []types.NamespacedName
	for l := range seen {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return out
}
