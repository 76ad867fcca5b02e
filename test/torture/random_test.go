package torture

import (
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/test/cnis"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/test/script"
)

// TestRandom disturbs random histories of random clusters at random calls. The
// same ones every time, unless all is asked for.
func TestRandom(t *testing.T) {
	t.Parallel()
	histories(t)
	rapid.Check(t, func(t *rapid.T) {
		sc := drawScenario(t)
		undisturbed := newReplay(t, sc, nil)
		want := undisturbed.run()
		all := undisturbed.disturbances(budget{both: true, nth: 1})
		if len(all) == 0 {
			return
		}
		for range effort.Of(3, 6) {
			d := all[rapid.IntRange(0, len(all)-1).Draw(t, "disturbance")]
			r := newReplay(t, sc, &d)
			r.sameAs(want, r.run())
		}
		if rapid.IntRange(0, 3).Draw(t, "orders") == 0 {
			expand(t, sc, want, 0, budget{orders: 1, shuffles: 1})
		}
	})
}

// histories makes rapid draw as many histories as the budget allows, the same ones every
// time unless all are asked for.
func histories(t *testing.T) {
	t.Helper()
	if n := afford().histories; n != "" {
		effort.Flag(t, "rapid.seed", "4")
		effort.Flag(t, "rapid.checks", n)
	}
	t.Logf("rapid.seed %v, rapid.checks %v", flag.Lookup("rapid.seed").Value, flag.Lookup("rapid.checks").Value)
}

// historian makes a scenario of the clusters that gen draws.
type historian struct {
	t      *rapid.T
	sc     *scenario
	shared bool // pods with one address have one endpoint
	rev    int
	now    apiObjects
	plug   map[string]string // endpoints by what they are for
	births int               // of endpoints: an id never comes again
	addrs  []netip.Addr
}

func drawScenario(t *rapid.T) *scenario {
	tiers, transactions := rapid.Bool().Draw(t, "tiers"), 3
	if tiers {
		transactions = 2 // every ClusterNetworkPolicy matters to every packet
	}
	g := gen.New(t, tiers)
	h := &historian{
		t: t, shared: rapid.Bool().Draw(t, "shared endpoints"), now: apiObjects{}, plug: map[string]string{},
		sc: &scenario{
			name: "random", memo: newMemo(), cni: cnis.All()[0], blind: true,
			batch: rapid.SampledFrom([]int{1000, 10}).Draw(t, "batch"),
			grace: rapid.SampledFrom([]time.Duration{0, 10 * time.Second}).Draw(t, "grace"),
		},
	}
	h.sc.splits = h.sc.batch < 1000
	c := g.Cluster()
	h.visit(c)
	h.sc.given = append(h.endpoints(c), step{do: apply, events: h.events(c)}, step{do: settle})
	steps := &h.sc.steps
	for range rapid.IntRange(1, transactions).Draw(t, "transactions") {
		for range rapid.IntRange(1, 2).Draw(t, "changes") {
			c, _ = g.Mutation(c, false)
			h.visit(c)
		}
		told := step{do: apply, events: h.events(c)}
		if rapid.Bool().Draw(t, "endpoints change later") {
			*steps = append(append(*steps, told), h.endpoints(c)...)
			*steps = append(*steps, step{do: wait, wait: 2 * time.Minute})
		} else {
			*steps = append(append(*steps, h.endpoints(c)...), told)
		}
		if extra := rapid.SampledFrom([]action{"", "", observe, settle, restart}).Draw(t, "then"); extra != "" {
			*steps = append(*steps, step{do: extra})
		}
	}
	var ports []port
	for _, p := range g.Probes(3) {
		for number, name := range protocols {
			if name == p.Protocol {
				ports = append(ports, port{number, p.Port})
			}
		}
	}
	h.sc.ask(append(h.addrs, gen.Ends(c)[:3]...), ports)
	return h.sc
}

// visit remembers the addresses of all pods: they are to be asked about.
func (h *historian) visit(c oracle.Cluster) {
	for i := range c.Pods {
		if addr := oracle.Address(&c.Pods[i]); addr.IsValid() {
			h.addrs = append(h.addrs, addr)
		}
	}
}

// events returns what changed, by name, and takes the cluster over.
func (h *historian) events(c oracle.Cluster) []event {
	next := apiObjects{}
	for name, is := range script.Objects(c) {
		o := version(0, name, is)
		if was := h.now[o.key]; was != nil && was.Equal(is) {
			o = was
		} else {
			h.rev++
			o.rev = h.rev
		}
		next[o.key] = o
	}
	var out []event
	told := map[string]bool{}
	for _, o := range next.values() {
		name := nameOf(o.key)
		told[name] = true
		if h.now[o.key] != o {
			out = append(out, event{name: name, is: o, text: fmt.Sprint(name, " rev ", o.rev, " ", o)})
		}
	}
	for _, o := range h.now.values() {
		if name := nameOf(o.key); !told[name] {
			out = append(out, event{name: name, text: "delete " + name})
		}
	}
	h.now = next
	return out
}

// endpoints is the CNI: every pod that runs here with an address of its own has
// an endpoint, and only such pods have.
func (h *historian) endpoints(c oracle.Cluster) []step {
	wanted := map[string]netip.Addr{}
	for i := range c.Pods {
		pod := &c.Pods[i]
		if pod.Spec.NodeName != node || !oracle.Member(pod) {
			continue
		}
		purpose := oracle.Address(pod).String()
		if !h.shared {
			purpose += " " + string(pod.UID)
		}
		wanted[purpose] = oracle.Address(pod)
	}
	var steps []step
	for _, purpose := range slices.Sorted(maps.Keys(h.plug)) {
		if _, ok := wanted[purpose]; !ok {
			steps = append(steps, step{do: cni, words: []string{"no-endpoint", h.plug[purpose]}})
			delete(h.plug, purpose)
		}
	}
	for _, purpose := range slices.Sorted(maps.Keys(wanted)) {
		if _, ok := h.plug[purpose]; !ok {
			h.births++
			h.plug[purpose] = fmt.Sprint("ep-", h.births)
			steps = append(steps, step{do: cni, words: []string{"endpoint", h.plug[purpose], wanted[purpose].String()}})
		}
	}
	return steps
}
