package desired

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// orphanCluster has two pods in two namespaces and a node, to be in sets of each kind.
func orphanCluster(o *Objects) {
	o.SetNamespace(Namespace{Name: "x", Labels: map[string]string{"team": "a"}})
	o.SetNode(state.Node{Name: "n", Labels: map[string]string{"zone": "a"}, Addrs: []netip.Addr{netip.MustParseAddr("10.1.0.1")}})
	for i, labels := range []map[string]string{{"app": "a"}, {"app": "b"}} {
		o.SetPod(Pod{
			Namespace: "x", Name: labels["app"], UID: types.UID(labels["app"]), Labels: labels, Addr: netip.AddrFrom4([4]byte{10, 0, 1, byte(i + 1)}),
			Ports: []PodPort{{Name: "http", Protocol: policy.TCP, Number: 80}},
		})
	}
}

// inHNS is what HNS has when the sets of a State are as they should be.
func inHNS(d *State) (sets []ipsets.Observed) {
	names := map[string]string{}
	for _, s := range d.cache.Snapshot() {
		names[s.Name] = s.ID
	}
	for _, s := range d.cache.Snapshot() {
		o := ipsets.Observed{ID: s.ID, Name: s.Name, Nested: s.Nested, Values: slices.Clone(s.Members)}
		if o.Nested {
			for i, m := range o.Values {
				o.Values[i] = names[m]
			}
			o.Values = append(o.Values, ipsets.Empty().ID())
		}
		sets = append(sets, o)
	}
	return sets
}

// TestRestoreOrphans: a set that only rules in HNS name is fed by a State that goes on from a
// dump as it was by the one before, whatever HNS has of it, and until nothing names it.
func TestRestoreOrphans(t *testing.T) {
	t.Parallel()
	stage := func(d *State, do func(*Objects)) {
		in := NewObjects()
		do(&in)
		d.Stage(&in, time.Time{})
	}
	set := func(names ...ipsets.Name) func([]ipsets.Observed, func(*ipsets.Observed)) {
		return func(sets []ipsets.Observed, do func(*ipsets.Observed)) {
			for i := range sets {
				if slices.ContainsFunc(names, func(n ipsets.Name) bool { return n.ID() == sets[i].ID }) {
					do(&sets[i])
				}
			}
		}
	}
	kinds := map[string]ipsets.Name{
		"namespace": ipsets.Namespace("x"), "label": ipsets.PodLabel("app", "a"), "computed": ipsets.PodSelector("x", "app!=b"),
		"several values": ipsets.NestedLabel("app", "a", "b"), "namespaces": ipsets.NamespaceLabel("team", "a"), "port": ipsets.NamedPort("http", "TCP", 80),
		"nodes": ipsets.Nodes("zone=a"), "blocks": ipsets.InBlocks("10.0.0.0/8"), "doubt": ipsets.Doubt(),
		"deny twin": ipsets.NamespaceLabel("team", "a").Deny(),
	}
	for kind, n := range kinds {
		for how, spoil := range map[string]func([]ipsets.Observed) []ipsets.Observed{
			"as it should be": func(sets []ipsets.Observed) []ipsets.Observed { return sets },
			"empty": func(sets []ipsets.Observed) []ipsets.Observed {
				set(n)(sets, func(o *ipsets.Observed) { o.Values = nil })
				return sets
			},
			"lost": func(sets []ipsets.Observed) []ipsets.Observed {
				return slices.DeleteFunc(sets, func(o ipsets.Observed) bool { return o.ID == n.ID() })
			},
			"all lost": func([]ipsets.Observed) []ipsets.Observed { return nil },
		} {
			t.Run(kind+"/"+how, func(t *testing.T) {
				t.Parallel()
				rule, applied := ipsets.Ref{Kind: ipsets.RefSelector, Owner: "x/p"}, ipsets.Ref{Kind: ipsets.RefApplied, Owner: "ep"}
				was := newTestState()
				stage(was, orphanCluster)
				made := nameSet{}
				require.True(t, was.restoreOrphan(n, rule, made), "a policy mentions it")
				was.members.fill(made)
				was.cache.Observe(inHNS(was), nil)
				was.Hold(n, applied)
				was.Release(rule, n)
				require.True(t, was.cache.Has(n))
				there := spoil(inHNS(was))
				was.cache.Observe(there, nil)

				var fed []ipsets.Name
				for _, s := range was.cache.Snapshot() {
					if of, ok := was.cache.Lookup(s.ID); ok && s.Fed {
						fed = append(fed, of, of) // twice: a dump may be anybody's
					}
				}
				is := newTestState()
				stage(is, orphanCluster)
				is.cache.Observe(there, nil)
				letGo := is.RestoreOrphans(fed)
				is.Hold(n, applied)
				is.DefineOrphans()
				letGo()
				for _, pod := range []string{"", "10.0.1.7", "10.0.1.8"} {
					if pod != "" {
						for _, d := range []*State{was, is} {
							stage(d, func(o *Objects) { // one more that belongs there, and then it has another address
								o.SetPod(Pod{Namespace: "x", Name: "new", UID: "new", Labels: map[string]string{"app": "a"}, Addr: netip.MustParseAddr(pod),
									Ports: []PodPort{{Name: "http", Protocol: policy.TCP, Number: 80}}})
							})
						}
					}
					require.Empty(t, cmp.Diff(was.cache.Snapshot(), is.cache.Snapshot()))
					require.Empty(t, cmp.Diff(planText(was), planText(is)))
				}
				for _, d := range []*State{was, is} {
					d.Release(applied, n)
					require.False(t, d.cache.Has(n), "nothing names it")
					require.Empty(t, d.members.selectors)
					require.Empty(t, d.namedPorts.byKey)
				}
			})
		}
	}
	d := newTestState()
	d.RestoreOrphans([]ipsets.Name{ipsets.NamedPort("no:number", "", 0), ipsets.PodSelector("x", "app in"), ipsets.NestedLabel("app", "a")})()
	require.Empty(t, d.cache.Snapshot(), "names that tell nothing")
}

// planText is what would be written.
func planText(d *State) (out []string) {
	for _, r := range d.cache.Plan() {
		for _, s := range r.Sets {
			out = append(out, r.Verb.String()+" "+s.Text+" "+strings.Join(s.Values, ","))
		}
	}
	return out
}
