package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// fair is what a fresh process would make of the node, on an HNS without a
// personality, and what of it the HNS of the history takes.
type fair struct {
	sets    []hns.SetPolicy
	rules   map[string][]hns.ACL // by endpoint, canonical
	sent    map[string][]hns.ACL // as they were sent
	refused map[string]bool      // sets, by Id
	partly  map[string]bool      // endpoints of which HNS rejects something
}

// fresh returns what a fresh process makes of the node. The endpoints are those that
// are there, with what others have on them.
func (l *life) fresh() fair {
	sim := hnsfault.New(hnsfault.Options{})
	for _, e := range l.sim.Endpoints() {
		_, foreign := hns.Endpoint{Policies: e.Policies}.Split()
		require.NoError(l.t, sim.CreateEndpoint(hnssim.SimEndpoint{ID: e.ID, Addrs: e.Addrs, Policies: append([]hns.EndpointPolicy{}, foreign...)}))
	}
	d := l.process(sim)
	report, err := d.ApplyDataplane(l.t.Context(), l.todo.now.whole())
	require.NoError(l.t, err)
	require.Empty(l.t, report.Errors)
	f := fair{sets: sim.Sets(), rules: map[string][]hns.ACL{}, sent: map[string][]hns.ACL{}, refused: map[string]bool{}, partly: map[string]bool{}}
	for _, e := range sim.Endpoints() {
		f.rules[e.ID], _ = hns.Endpoint{Policies: e.Policies}.Split()
		for _, p := range e.Policies {
			if a, err := p.ACL(); err == nil && a.Ours() {
				f.sent[e.ID] = append(f.sent[e.ID], a)
			}
		}
	}
	return f
}

// fairly returns fresh, with what HNS rejects of it: each set and each rule on its
// own, what names such a set, and the whole of an endpoint.
func (l *life) fairly() fair {
	f := l.fresh()
	strict := hnsfault.Personality{Refuse: l.odd.Refuse}
	sim := hnsfault.New(hnsfault.Options{})
	for _, kind := range []hns.SetType{hns.IPSet, hns.NestedIPSet} {
		for _, s := range f.sets {
			if s.Type != kind {
				continue
			}
			sim.SetPersonality(strict)
			err := sim.ModifySets(l.t.Context(), hns.Add, []hns.SetPolicy{s})
			f.refused[s.ID] = err != nil || slices.ContainsFunc(s.Values, func(v string) bool { return f.refused[v] })
			sim.SetPersonality(hnsfault.Personality{})
			require.NoError(l.t, sim.PutSet(s))
		}
	}
	sim.SetPersonality(strict)
	for _, e := range l.sim.Endpoints() {
		_, foreign := hns.Endpoint{Policies: e.Policies}.Split()
		create := func() {
			_ = sim.DeleteEndpoint(e.ID) // the first time there is none
			require.NoError(l.t, sim.CreateEndpoint(hnssim.SimEndpoint{ID: e.ID, Addrs: e.Addrs, Policies: append([]hns.EndpointPolicy{}, foreign...)}))
		}
		for _, a := range f.sent[e.ID] {
			create()
			refused := sim.AddACLs(l.t.Context(), e.ID, []hns.ACL{a}) != nil
			f.partly[e.ID] = f.partly[e.ID] || refused || slices.ContainsFunc(a.SetIDs(), func(id string) bool { return f.refused[id] })
		}
		create()
		cut := make([]hns.EndpointPolicy, len(foreign))
		for i, p := range foreign {
			cut[i], _ = p.Documented()
		}
		for _, a := range f.sent[e.ID] {
			cut = append(cut, hns.NewACLPolicy(a))
		}
		f.partly[e.ID] = f.partly[e.ID] || sim.ReplacePolicies(l.t.Context(), e.ID, cut) != nil || l.odd.blind == e.ID
	}
	return f
}

// but returns f without what the running process still takes for refused. That process asks
// HNS again within ten minutes.
func (f fair) but(d state.Dump) fair {
	f.refused, f.partly = maps.Clone(f.refused), maps.Clone(f.partly)
	for _, s := range d.Sets {
		f.refused[s.ID] = f.refused[s.ID] || s.Refused || s.Again != nil
	}
	for _, ep := range d.Endpoints {
		for id, rules := range f.rules { // HNS may show a GUID in the other case
			if !strings.EqualFold(id, ep.ID) {
				continue
			}
			f.partly[id] = f.partly[id] || len(ep.Next.Refused) > 0 || slices.ContainsFunc(rules, func(a hns.ACL) bool {
				return slices.ContainsFunc(a.SetIDs(), func(set string) bool { return f.refused[set] })
			})
		}
	}
	return f
}

// differs says how the node differs from what a fresh process makes of it, in what
// HNS takes; "" when it does not. Rules for a named port's number that no peer uses
// may be left, and what they name.
func (l *life) differs(f fair) string {
	var out []string
	sets := l.sets()
	unused := func(a hns.ACL) bool { return hnsfault.Unused(a, sets) }
	used, now := map[string]bool{}, cluster(l.todo.now.values())
	for _, e := range l.sim.Endpoints() {
		rules, _ := hns.Endpoint{Policies: e.Policies}.Split()
		rules = slices.DeleteFunc(rules, unused)
		want := slices.DeleteFunc(slices.Clone(f.rules[e.ID]), unused)
		if f.partly[e.ID] || !local(now, e.Addrs[0]) { // without a pod it keeps what it has
			continue
		}
		for _, a := range want {
			for _, id := range a.SetIDs() {
				used[id] = true
			}
		}
		if got, want := texts(rules), texts(want); !slices.Equal(got, want) {
			out = append(out, fmt.Sprintf("endpoint %s has\n  %s\nand should have\n  %s", e.ID, strings.Join(got, "\n  "), strings.Join(want, "\n  ")))
		}
	}
	for _, s := range f.sets {
		if f.refused[s.ID] || !used[s.ID] {
			continue
		}
		got, want := slices.Sorted(slices.Values(sets[s.ID].Values)), slices.Sorted(slices.Values(s.Values))
		if !slices.Equal(got, want) {
			out = append(out, fmt.Sprintf("set %s has %v and should have %v", s.Name, got, want))
		}
	}
	return strings.Join(out, "\n")
}

func texts(acls []hns.ACL) []string {
	out := make([]string, len(acls))
	for i, a := range acls {
		out[i] = fmt.Sprintf("%+v", a)
	}
	slices.Sort(out)
	return out
}

// unused reports whether an endpoint has a rule of a number that no peer uses.
func (l *life) unused() bool {
	sets := l.sets()
	return slices.ContainsFunc(l.sim.Endpoints(), func(e hnssim.SimEndpoint) bool {
		rules, _ := hns.Endpoint{Policies: e.Policies}.Split()
		return slices.ContainsFunc(rules, func(a hns.ACL) bool { return hnsfault.Unused(a, sets) })
	})
}

// surplus returns the sets that a fresh process would not have.
func (l *life) surplus(f fair) []string {
	extra, sets := map[string]bool{}, l.sets()
	for _, s := range sets {
		extra[s.Name] = true
	}
	for _, e := range l.sim.Endpoints() {
		rules, _ := hns.Endpoint{Policies: e.Policies}.Split()
		for _, a := range rules {
			if !hnsfault.Unused(a, sets) {
				continue
			}
			for _, id := range a.SetIDs() {
				for _, member := range append([]string{id}, sets[id].Values...) {
					delete(extra, sets[member].Name)
				}
			}
		}
	}
	for _, s := range f.sets {
		delete(extra, s.Name)
	}
	maps.DeleteFunc(extra, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(extra))
}
