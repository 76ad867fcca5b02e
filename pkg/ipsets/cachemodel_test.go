package ipsets

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/test/effort"
)

// trial is one run of the model test: a Cache, its naive twin and an HNS that
// refuses, hangs and loses replies.
type trial struct {
	c *Cache
	m *model
	h *strictHNS
	// An earlier listing and what moved since, for a reconciler that is late.
	listing []Observed
	moved   map[Name]bool
	taken   []taken
	lenient bool // HNS rejects no content for now
}

// taken is a copy, and what it showed when it was made: it shows that from then on.
type taken struct {
	copy   *Copy
	states []SetState
}

// copy makes one, of which there are two at most.
func (tr *trial) copy(t *rapid.T) {
	if len(tr.taken) == 2 {
		t.Skip("enough")
	}
	c := tr.c.Copy()
	tr.taken = append(tr.taken, taken{c, c.States()})
}

func (tk taken) check(t require.TestingT) {
	require.Empty(t, gocmp.Diff(tk.states, tk.copy.States()))
}

func newTrial() *trial {
	tr := &trial{c: NewCache(), m: newModel(), h: newStrictHNS(), moved: map[Name]bool{}}
	tr.c.Now = time.Unix(0, 0)
	tr.h.bad = func(_ string, values []string) bool {
		return !tr.lenient && slices.Contains(values, poison.String()) ||
			!tr.lenient && slices.Contains(values, leafA.ID()) && slices.Contains(values, nsY.ID())
	}
	return tr
}

func (tr *trial) hold(t *rapid.T, n Name, r Ref) {
	require.Equal(t, tr.m.hold(n, r), tr.c.Hold(n, r), "hold of %s created it", n)
}

func (tr *trial) release(n Name, r Ref) {
	tr.c.Release(n, r)
	delete(tr.m.refs[n], r)
	tr.m.drop()
}

func (tr *trial) addAddr(n Name, a netip.Addr) {
	tr.c.AddAddr(n, a)
	if tr.m.addrs[n] == nil {
		tr.m.addrs[n] = map[string]bool{}
	}
	tr.m.addrs[n][a.String()] = true
}

func (tr *trial) addMember(t *rapid.T, n, leaf Name) {
	require.Equal(t, tr.m.ask(n, leaf), tr.c.AddMember(n, leaf))
}

// send executes a request with a fault, and records it in both. It reports
// whether the rest of the plan may follow.
func (tr *trial) send(t *rapid.T, r Write, fault string) bool {
	for _, s := range r.Sets {
		tr.moved[s.Name] = true
	}
	if fault == "refused" {
		return false
	}
	tr.m.apart(t, r)
	tr.m.together(t, r)
	tr.m.crossed(t, r)
	if fault == "" || fault == "reply lost" {
		err := tr.h.do(r)
		require.NotErrorIs(t, err, errOrder)
		if errors.Is(err, errInvalid) {
			tr.refuse(r)
			return false
		}
	}
	if fault != "" {
		for _, s := range r.Sets {
			tr.c.Unknown(s.Name)
			tr.m.unknown[s.Name] = true
		}
		return false
	}
	done(tr.c, r)
	tr.m.wrote(r)
	return true
}

// refuse records that HNS rejects a request.
func (tr *trial) refuse(r Write) {
	if n, is := tr.c.RejectRequest(r); is {
		tr.m.refused[n] = joined(tr.m.value(n))
	}
	tr.m.suspects = tr.suspects()
}

// suspects are those of the Cache: only what follows from them is the model's.
func (tr *trial) suspects() map[Name]bool {
	out := map[Name]bool{}
	for _, s := range tr.c.byID {
		if s.group > 0 {
			out[s.name] = true
		}
	}
	return out
}

func (tr *trial) run(t *rapid.T, plan []Write) {
	for _, r := range plan {
		if !tr.send(t, r, rapid.SampledFrom([]string{"", "", "", "refused", "lost", "reply lost"}).Draw(t, "fault")) {
			return
		}
	}
}

// observe hands in a whole listing.
func (tr *trial) observe() {
	tr.c.Observe(tr.h.list(), nil)
	tr.m.see(tr.h)
}

// observeLate hands in an earlier listing; what moved since is skipped.
func (tr *trial) observeLate() {
	tr.c.Observe(tr.listing, func(n Name) bool { return tr.moved[n] })
	listed := map[Name][]string{}
	for _, o := range tr.listing {
		listed[nameOf(o)] = slices.Sorted(slices.Values(o.Values))
	}
	for _, n := range modelAll {
		if tr.moved[n] {
			continue
		}
		delete(tr.m.unknown, n)
		delete(tr.m.view, n)
		if v, ok := listed[n]; ok {
			tr.m.view[n] = v
		}
	}
}

// find puts sets of an earlier process into HNS and reads them.
func (tr *trial) find(t *rapid.T) {
	put := func(n Name, values []string) {
		tr.h.sets[n.ID()] = hnsSet{name: n.String(), nested: n.Nested(), values: values}
	}
	put(Empty(), nil)
	for _, leaf := range modelLeaves {
		put(leaf, []string{rapid.SampledFrom(modelAddrs).Draw(t, "value").String()})
	}
	for _, n := range rapid.SliceOfDistinct(rapid.SampledFrom(modelNested), rapid.ID).Draw(t, "nested") {
		values := []string{Empty().ID()}
		for _, leaf := range rapid.SliceOfDistinct(rapid.SampledFrom(modelLeaves), rapid.ID).Draw(t, "members") {
			values = append(values, leaf.ID())
		}
		put(n, values)
	}
	tr.listing = tr.h.list()
	tr.observe()
}

// use makes HNS protect what endpoints name: exactly what applied references
// and pins stand for.
func (tr *trial) use() {
	clear(tr.h.used)
	for n, refs := range tr.m.refs {
		for r := range refs {
			if r.Kind == RefActual || r.Kind == RefPin {
				tr.h.used[n.ID()] = true
			}
		}
	}
}

// restart is a new process: it reads HNS and is told everything again, or only
// what endpoints name, when the policies went while it was away.
func (tr *trial) restart(t *rapid.T) {
	calm := tr.m.settled() && len(tr.m.unknown) == 0
	old := tr.m
	now := tr.c.Now
	tr.c, tr.m = NewCache(), newModel()
	tr.c.Now = now
	for owner, what := range old.sights {
		tr.c.See(owner, what)
		tr.m.sights[owner] = what
	}
	tr.observe()
	gone := rapid.Bool().Draw(t, "policies are gone")
	for _, n := range modelAll {
		for r := range old.refs[n] {
			if !gone || !r.Kind.defines() {
				tr.hold(t, n, r)
			}
		}
	}
	for n := range old.asks {
		for leaf := range old.asks[n] {
			if !tr.m.asks[n][leaf] && tr.m.defined[n] {
				tr.addMember(t, n, leaf)
			}
		}
	}
	for n := range old.addrs {
		for a := range old.addrs[n] {
			if tr.m.defined[n] {
				tr.addAddr(n, netip.MustParseAddr(a))
			}
		}
	}
	if calm {
		require.Nil(t, tr.c.Plan(), "a restart with nothing changed writes nothing")
	}
}

// TestCacheModel plays random calls of a Cache, with the sets of allow rules, with their deny
// twins, and with some of both, so that an address moves between the two kinds.
func TestCacheModel(t *testing.T) {
	leaves, nests := modelLeaves, modelNested
	t.Cleanup(func() { setModel(leaves, nests) })
	twins := func(names []Name) (out []Name) {
		for _, n := range names {
			out = append(out, n.Deny())
		}
		return out
	}
	t.Run("allow", checkCacheModel)
	setModel(twins(leaves), twins(nests))
	t.Run("deny", checkCacheModel)
	setModel([]Name{leafA, leafA.Deny(), leafB, leafB.Deny(), nsX}, []Name{nested, nested.Deny(), spaces.Deny()})
	t.Run("both", checkCacheModel)
}

// setModel replaces the sets of the model.
func setModel(leaves, nested []Name) {
	modelLeaves, modelNested, modelAll = leaves, nested, slices.Concat(leaves, nested, []Name{Empty()})
}

func checkCacheModel(t *testing.T) {
	effort.Checks(t, effort.Of(8, 100))
	rapid.Check(t, func(t *rapid.T) {
		tr := newTrial()
		someLeaf, someNested := rapid.SampledFrom(modelLeaves), rapid.SampledFrom(modelNested)
		someAddr := rapid.SampledFrom(modelAddrs)
		clock := time.Unix(0, 0)
		if rapid.Bool().Draw(t, "left behind") {
			tr.find(t)
		}
		pick := func(t *rapid.T, from map[Name]bool, nested bool) Name {
			for n := range from {
				if n.Nested() != nested {
					from = maps.Clone(from)
					delete(from, n)
				}
			}
			if len(from) == 0 {
				t.Skip("none")
			}
			return rapid.SampledFrom(slices.SortedFunc(maps.Keys(from), Compare)).Draw(t, "set")
		}
		t.Repeat(map[string]func(*rapid.T){
			"hold": func(t *rapid.T) {
				n := rapid.SampledFrom(slices.Concat(modelLeaves, modelNested)).Draw(t, "set")
				kind := rapid.SampledFrom([]RefKind{RefSelector, RefRule, RefActual, RefPin}).Draw(t, "kind")
				tr.hold(t, n, Ref{kind, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "owner")})
			},
			"release": func(t *rapid.T) {
				held := map[Name]bool{}
				for n, refs := range tr.m.refs {
					if len(refs) > 0 {
						held[n] = true
					}
				}
				n := pick(t, held, rapid.Bool().Draw(t, "nested"))
				tr.release(n, rapid.SampledFrom(slices.SortedFunc(maps.Keys(tr.m.refs[n]), compareRefs)).Draw(t, "ref"))
			},
			"add address": func(t *rapid.T) {
				n := pick(t, tr.m.defined, false)
				if n == Empty() {
					t.Skip("it never has one")
				}
				tr.addAddr(n, someAddr.Draw(t, "address"))
			},
			"remove address": func(t *rapid.T) {
				n, a := someLeaf.Draw(t, "leaf"), someAddr.Draw(t, "address")
				tr.c.RemoveAddr(n, a)
				delete(tr.m.addrs[n], a.String())
			},
			"add member": func(t *rapid.T) {
				tr.addMember(t, pick(t, tr.m.defined, true), someLeaf.Draw(t, "leaf"))
			},
			"remove member": func(t *rapid.T) {
				n, leaf := someNested.Draw(t, "nested"), someLeaf.Draw(t, "leaf")
				tr.c.RemoveMember(n, leaf)
				delete(tr.m.asks[n], leaf)
				tr.m.drop()
			},
			"define orphan": func(t *rapid.T) {
				n := pick(t, tr.m.orphans(), rapid.Bool().Draw(t, "nested"))
				require.True(t, tr.c.Define(n))
				require.True(t, tr.m.define(n))
			},
			"apply":       func(t *rapid.T) { tr.run(t, tr.c.Plan()) },
			"apply again": func(t *rapid.T) { tr.run(t, tr.c.Plan()) },
			"refuse all": func(t *rapid.T) { // too large, or for a moment
				if plan := tr.c.Plan(); len(plan) > 0 {
					tr.refuse(plan[rapid.IntRange(0, len(plan)-1).Draw(t, "request")])
				}
			},
			"probe":       func(t *rapid.T) { tr.probe(t, someLeaf.Draw(t, "leaf"), someNested.Draw(t, "nested")) },
			"be lenient":  func(t *rapid.T) { tr.lenient = rapid.Bool().Draw(t, "lenient") },
			"remove sets": func(t *rapid.T) { tr.run(t, tr.c.PlanRemovals(clock, nil)) },
			"see": func(t *rapid.T) {
				owner := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "owner")
				tr.m.sights[owner] = rapid.SampledFrom([]Sight{SeesActual, SeesActual, SeesPinned, SeesNothing}).Draw(t, "sight")
				tr.c.See(owner, tr.m.sights[owner])
			},
			"list": func(*rapid.T) {
				tr.listing = tr.h.list()
				clear(tr.moved)
			},
			"observe":      func(*rapid.T) { tr.observe() },
			"observe late": func(*rapid.T) { tr.observeLate() },
			"tamper":       func(t *rapid.T) { tr.tamper(t) },
			"restart":      func(t *rapid.T) { tr.restart(t) },
			"copy":         func(t *rapid.T) { tr.copy(t) },
			"tick":         func(*rapid.T) { clock = clock.Add(time.Second); tr.c.Now = clock },
			"": func(t *rapid.T) {
				tr.m.drop()
				tr.m.forget()
				tr.m.suspects = tr.suspects()
				tr.use()
				tr.m.check(t, tr.c)
				tr.acceptable(t, tr.c.Plan())
				tr.acceptable(t, tr.c.PlanRemovals(clock, nil))
				for _, s := range tr.c.Snapshot() {
					if n, ok := tr.c.Lookup(s.ID); ok {
						require.Equal(t, tr.m.fed(n), s.Fed, "Fed %s", n)
					}
				}
				tr.differences(t)
			},
		})
		tr.converge(t)
		for _, tk := range tr.taken {
			tk.check(t)
		}
	})
}

// acceptable checks that HNS would refuse no request of a plan for its order,
// whatever faults came before.
func (tr *trial) acceptable(t *rapid.T, plan []Write) {
	h := tr.h.clone()
	h.bad = func(string, []string) bool { return false }
	for _, r := range plan {
		require.NoError(t, h.do(r), "%s", planText(plan))
	}
}

// probe asks again for what HNS refused.
func (tr *trial) probe(t *rapid.T, names ...Name) {
	for _, n := range names {
		r, ok := tr.c.Probe(n)
		require.False(t, ok && !tr.m.rejected(n))
		if ok && len(tr.c.Plan()) == 0 { // else that is written first
			require.Len(t, r.Sets, 1)
			require.Equal(t, tr.m.allowed(n), slices.Sorted(slices.Values(r.Sets[0].Values)))
			if errors.Is(tr.h.clone().do(r), errOrder) {
				continue // a member that "refuse all" kept from HNS
			}
			tr.send(t, r, "")
		}
	}
}

// tamper changes a set behind the cache's back, within what HNS accepts; it is
// seen at once.
func (tr *trial) tamper(t *rapid.T) {
	n := rapid.SampledFrom(modelLeaves).Draw(t, "set")
	s, there := tr.h.sets[n.ID()]
	if !there {
		s = hnsSet{name: n.String()}
	}
	s.values = []string{rapid.SampledFrom(modelAddrs).Draw(t, "value").String()}
	tr.h.sets[n.ID()] = s
	for _, s := range tr.h.list() {
		tr.moved[nameOf(s)] = true
	}
	tr.observe()
}

// converge ends a trial without faults: HNS has to reach what is desired, and
// where it refuses that, what it may have; once no rule sees what it refuses,
// nothing is held back any more.
func (tr *trial) converge(t *rapid.T) {
	tr.lenient = false
	tr.use()
	tr.observe()
	tr.settle(t)
	for _, n := range modelAll {
		if tr.m.rejects(n) {
			for _, r := range slices.Collect(maps.Keys(tr.m.refs[n])) {
				if r.Kind == RefActual || r.Kind == RefPin {
					tr.release(n, r)
				}
			}
		}
	}
	tr.use()
	tr.settle(t)
	leavesFirst := slices.Concat([]Name{Empty()}, modelLeaves, modelNested)
	for _, n := range leavesFirst {
		if tr.m.needed(n) && tr.m.defined[n] && tr.m.rejected(n) { // for a moment, on the way, or for good
			tr.probe(t, n)
			tr.settle(t)
		}
	}
	for _, n := range leavesFirst {
		if !tr.m.needed(n) || !tr.m.defined[n] {
			continue
		}
		s, there := tr.h.sets[n.ID()]
		if poisoned := tr.h.bad("", tr.m.value(n)); poisoned {
			require.True(t, tr.m.rejected(n) || there && tr.h.bad("", s.values), "%s is refused", n)
			continue
		}
		if tr.m.rejected(n) {
			continue
		}
		require.True(t, there, "%s is in HNS", n)
		require.Equal(t, tr.m.allowed(n), slices.Sorted(slices.Values(s.values)), "%s is not what it may be", n)
	}

	for _, r := range tr.c.PlanRemovals(tr.c.Now, nil) {
		require.True(t, tr.send(t, r, ""))
	}
	for _, line := range tr.h.text() {
		n := slices.IndexFunc(modelAll, func(n Name) bool { return line == n.String() || strings.HasPrefix(line, n.String()+" ") })
		kept := modelAll[n]
		contained := slices.ContainsFunc(modelNested, func(in Name) bool { return slices.Contains(tr.m.view[in], kept.ID()) })
		require.True(t, tr.m.needed(kept) || contained, "%s is left behind", kept)
	}
}

// settle sends plans until there is none.
func (tr *trial) settle(t *rapid.T) {
	for range 12 * len(modelAll) {
		for _, r := range tr.c.Plan() {
			if !tr.send(t, r, "") {
				break
			}
		}
	}
	require.Nil(t, tr.c.Plan())
	require.False(t, tr.c.Searching() && !tr.c.HeldBack(), "a suspect that nobody asks for waits for nothing")
}
