package ipsets

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// planText is a plan as people read it, a line between requests.
func planText(plan []Write) string {
	var parts []string
	for _, r := range plan {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, "\n--\n")
}

// planLines is a plan without the marks between requests.
func planLines(plan []Write) string { return strings.ReplaceAll(planText(plan), "\n--", "") }

// same compares a plan with its text, indentation aside.
func same(t *testing.T, want string, plan []Write) {
	t.Helper()
	want = strings.ReplaceAll(strings.TrimSpace(want), "\n\t\t", "\n")
	require.Equal(t, want, planText(plan))
}

// world is a cache in step with a strict HNS.
type world struct {
	*Cache
	t   *testing.T
	hns *strictHNS
}

func newWorld(t *testing.T) *world { return &world{NewCache(), t, newStrictHNS()} }

func (w *world) apply() {
	w.t.Helper()
	require.NoError(w.t, w.hns.run(w.Cache, w.Plan()))
	require.Nil(w.t, w.Plan(), "a plan that was done leaves nothing to do")
	require.True(w.t, w.Settled())
}

// nest defines and fills a nested set of leaves with one address each.
func (w *world) nest(n Name, r Ref, leaves map[Name]netip.Addr) {
	w.Hold(n, r)
	for leaf, a := range leaves {
		w.AddMember(n, leaf)
		w.AddAddr(leaf, a)
	}
}

func TestPlanOrder(t *testing.T) {
	w := newWorld(t)
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1, leafB: addr2})
	w.Hold(nsX, rule)
	w.AddAddr(nsX, addr3)
	w.AddAddr(nsX, addr2)
	w.Hold(nsY, selector) // only mentioned: costs nothing in HNS
	same(t, `
		set  create  empty-emptyhashset
		set  create  ns-x  10.0.0.2 10.0.0.10
		set  create  podlabel-app:a  10.0.0.1
		set  create  podlabel-app:b  10.0.0.2
		--
		nest create  nestedlabel-app:a:b  -> empty-emptyhashset podlabel-app:a podlabel-app:b`, w.Plan())
	require.False(t, w.Settled())
	w.apply()

	w.AddAddr(nsX, addr1)
	w.RemoveMember(nested, leafA)
	w.Hold(spaces, rule)
	w.AddMember(spaces, nsX)
	w.Hold(nsY, rule)
	same(t, `
		set  create  ns-y
		--
		set  update  ns-x  10.0.0.1 10.0.0.2 10.0.0.10
		--
		nest create  nslabel-all-namespaces  -> empty-emptyhashset ns-x
		--
		nest update  nestedlabel-app:a:b  -> empty-emptyhashset podlabel-app:b`, w.Plan())
	w.apply()
	same(t, `set  delete  podlabel-app:a`, w.PlanRemovals(w.Now, nil))
}

// Neither order of adding and removing leaves anything behind.
func TestNetZero(t *testing.T) {
	for title, change := range map[string]func(w *world){
		"add, remove":                func(w *world) { w.AddAddr(leafA, addr2); w.RemoveAddr(leafA, addr2) },
		"remove, add":                func(w *world) { w.RemoveAddr(leafA, addr1); w.AddAddr(leafA, addr1) },
		"member: add, remove":        func(w *world) { w.AddMember(nested, nsX); w.RemoveMember(nested, nsX) },
		"member: remove, add":        func(w *world) { w.RemoveMember(nested, leafB); w.AddMember(nested, leafB); w.AddAddr(leafB, addr2) },
		"hold, release":              func(w *world) { w.Hold(nsX, rule); w.Release(nsX, rule) },
		"release, hold":              func(w *world) { w.Release(leafA, rule); w.Hold(leafA, rule) },
		"across a lost reply":        func(w *world) { w.AddAddr(leafA, addr2); w.Unknown(leafA); w.RemoveAddr(leafA, addr2) },
		"across a lost reply, first": func(w *world) { w.Unknown(nested); w.RemoveMember(nested, leafA); w.AddMember(nested, leafA) },
	} {
		t.Run(title, func(t *testing.T) {
			w := newWorld(t)
			w.Hold(leafA, rule)
			w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1, leafB: addr2})
			w.apply()
			change(w)
			require.Nil(t, w.Plan())
			w.Observe(w.hns.list(), nil)
			require.Nil(t, w.Plan())
			require.True(t, w.Settled())
			require.Nil(t, w.PlanRemovals(w.Now, nil))
		})
	}
}

func TestRemovalsWaitForTheGracePeriod(t *testing.T) {
	w := newWorld(t)
	start := time.Unix(1000, 0)
	w.Now = start
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1})
	w.Hold(nsX, rule)
	w.apply()
	w.Now = start.Add(time.Minute)
	w.Release(nsX, rule)
	w.Now = start.Add(2 * time.Minute)
	w.Release(nested, rule)

	w.Hold(nsX, selector) // a mention is no need
	w.AddAddr(nsX, addr2)

	require.Nil(t, w.PlanRemovals(start.Add(59*time.Second), nil))
	same(t, `set  delete  ns-x`, w.PlanRemovals(start.Add(time.Minute), nil))
	all := `
		nest delete  nestedlabel-app:a:b
		--
		set  delete  empty-emptyhashset
		set  delete  ns-x
		set  delete  podlabel-app:a`
	same(t, all, w.PlanRemovals(start.Add(2*time.Minute), nil))

	w.Hold(nsX, pin) // needed again: the time starts anew
	w.Now = start.Add(3 * time.Minute)
	w.Release(nsX, pin)
	require.NotContains(t, planText(w.PlanRemovals(start.Add(2*time.Minute), nil)), "ns-x")
	plan := w.PlanRemovals(start.Add(3*time.Minute), nil)
	same(t, all, plan)
	require.Equal(t, []string{"10.0.0.1"}, plan[1].Sets[2].Values, "the request carries what HNS has")
	require.NoError(t, w.hns.run(w.Cache, plan))
	require.Empty(t, w.hns.sets)
	w.Release(nsX, selector)
	require.Empty(t, w.Snapshot())
}

func TestReady(t *testing.T) {
	w := newWorld(t)
	require.False(t, w.Ready(leafA))
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1})
	require.False(t, w.Ready(nested))
	w.apply()
	require.True(t, w.Ready(nested))
	w.AddAddr(leafA, addr2)
	require.False(t, w.Ready(leafA))
	require.False(t, w.Ready(nested), "its member differs")
	w.RemoveAddr(leafA, addr2)
	require.True(t, w.Ready(nested))
	w.Unknown(leafA)
	require.False(t, w.Ready(nested))
	require.False(t, w.Settled(), "it has the right content as far as known, but that is not far")
	w.Observe(w.hns.list(), nil)
	require.True(t, w.Ready(nested))
	w.Hold(nsX, rule)
	w.apply()
	w.Reject(nsX) // which HNS took before
	require.False(t, w.Ready(nsX))
	require.False(t, w.Settled())
}

func TestLags(t *testing.T) {
	w := newWorld(t)
	require.False(t, w.Lags(addr1))
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1})
	require.True(t, w.Lags(addr1))
	require.False(t, w.Lags(addr2), "it is in no set")
	w.apply()
	require.False(t, w.Lags(addr1))
	w.RemoveAddr(leafA, addr1)
	require.True(t, w.Lags(addr1), "HNS still has it")
	w.apply()
	require.False(t, w.Lags(addr1))
	w.Unknown(leafA)
	require.True(t, w.Lags(addr1))
	w.Observe(w.hns.list(), nil)
	require.False(t, w.Lags(addr1))
	w.AddAddr(leafA, addr2)
	w.Reject(leafA)
	require.False(t, w.Lags(addr2), "no rule sees it")

	w = newWorld(t)
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1})
	w.Hold(leafB, rule)
	w.AddAddr(leafB, addr2)
	w.apply()
	require.False(t, w.Lags(addr2))
	w.AddMember(nested, leafB)
	require.True(t, w.Lags(addr2), "HNS has the leaf, and not in the nested set")
	require.False(t, w.Lags(addr1))
	w.apply()
	require.False(t, w.Lags(addr2))
}

func TestPlanIsAValue(t *testing.T) {
	w := newWorld(t)
	w.Hold(nsX, rule)
	w.AddAddr(nsX, addr1)
	before := w.Snapshot()
	plan := w.Plan()
	text := planText(plan)
	require.Equal(t, text, planText(w.Plan()))
	require.Equal(t, before, w.Snapshot())
	w.AddAddr(nsX, addr2)
	require.Equal(t, text, planText(plan))
}

// String has one line for every set, with readable names.
func (r Write) String() string {
	what, lines := "set ", make([]string, 0, len(r.Sets))
	if r.Nested {
		what = "nest"
	}
	for _, s := range r.Sets {
		values, arrow := s.Values, ""
		if r.Nested {
			values, arrow = make([]string, len(s.Values)), "-> "
			for i, id := range s.Values {
				values[i] = readable(id)
			}
			slices.Sort(values)
		}
		line := fmt.Sprintf("%s %s  %s", what, r.Verb, s.Text)
		if r.Verb != Remove {
			line += "  " + arrow + strings.Join(values, " ")
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return strings.Join(lines, "\n")
}

// readable returns the name of a set of these tests.
func readable(id string) string {
	for _, n := range []Name{Empty(), leafA, leafB, nsX, nsY} {
		for _, n := range []Name{n, n.Deny()} {
			if n.ID() == id {
				return n.String()
			}
		}
	}
	return id
}

// What tests ask a cache.

// Holds reports whether the reference is held.
func (c *Cache) Holds(n Name, r Ref) bool {
	s := c.find(n)
	if s == nil {
		return false
	}
	if r.Kind == RefList {
		return slices.Contains(s.references(), r)
	}
	_, held := s.refs[r]
	return held
}

// Searching reports whether there are suspects: Plan has more to ask than it would
// otherwise.
func (c *Cache) Searching() bool {
	for _, s := range c.byID {
		if s.group > 0 {
			return true
		}
	}
	return false
}

// Snapshot returns all sets, by name.
func (c *Cache) Snapshot() []SetState { return c.Copy().States() }

// Difference is how what HNS holds of a set differs from the Members of its SetState.
type Difference struct {
	Missing, Surplus []string
	Unknown          bool
	Since            time.Time
}

// Differences returns the sets that are not as desired, by id.
func (p *Copy) Differences() map[string]Difference {
	out := map[string]Difference{}
	for _, s := range p.States() {
		if len(s.Missing)+len(s.Surplus) > 0 || s.Unknown || !s.Since.IsZero() {
			out[s.ID] = Difference{s.Missing, s.Surplus, s.Unknown, s.Since}
		}
	}
	return out
}
