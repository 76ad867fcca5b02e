package endpoints

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// fromApp is a policy that lets pods with one label reach all pods of namespace x.
func fromApp(name, app string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name},
		Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}},
		}}},
	}
}

// step returns the next step of an endpoint's update, and the list that it leads to.
func step(t require.TestingT, d *Table, id string) (s acl.Step, reached []hns.ACL) {
	ep, steps, _ := d.NextSteps(id)
	require.NotEmpty(t, steps)
	s, reached = steps[0], steps[0].ACLs
	if s.Verb == hns.Add {
		reached = slices.Concat(ep.Actual, reached)
	}
	return s, acl.Canonical(reached)
}

// TestOutcomes: what a write that ends in each way leaves known of its endpoint, and what is
// to be done with it.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	ofEndpoint := func(err error) error { return &hns.OpError{Kind: hns.KindEndpoint, Err: err} }
	ofRule := &hns.OpError{Kind: hns.KindACL, Err: hns.ErrInvalid, Code: 0x803b0030}
	others := hns.Endpoint{ID: "A", Addrs: []netip.Addr{testAddr(0)}}
	tests := map[string]struct {
		err   error
		state string // "" when the endpoint is dropped
		lists int    // that may be on it besides the one that is known
		read  bool   // before it is written again
		done  bool
		fails bool // so that the next try is scheduled
	}{
		"done":                    {nil, "known, settled", 0, false, true, false},
		"broke off":               {ofEndpoint(hns.ErrUnavailable), "unknown, pending", 2, true, false, true},
		"unlisted and not read":   {ofRule.Err, "unknown, pending", 2, true, false, true},
		"refused":                 {&versioned.Refused{Err: ofRule}, "known, bisecting", 0, false, false, false},
		"refused, code not known": {&versioned.Refused{Err: &hns.OpError{Kind: hns.KindACL, Err: hns.ErrUnlisted}}, "known, bisecting", 0, false, false, false},
		"refused as an endpoint":  {&versioned.Refused{Err: ofEndpoint(hns.ErrInvalid)}, "known, pending", 0, false, false, true},
		"refused as a set":        {&versioned.Refused{Err: &hns.OpError{Kind: hns.KindSet, Err: hns.ErrNotFound}}, "known, pending", 0, false, false, true},
		"not made":                {versioned.ErrUnread, "known, pending", 0, false, false, true},
		"conflict before":         {&versioned.Conflict{Endpoint: others}, "known, pending", 0, false, false, true},
		"conflict after":          {&versioned.Conflict{Endpoint: others, Written: true}, "known, pending", 0, false, false, true},
		"gone":                    {ofEndpoint(hns.ErrNotFound), "", 0, false, false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := begun(t, "a")
			d.follow(func(o *desired.Objects) { o.SetPolicy(fromApp("p", "web")) })
			ep := d.Endpoint("a")
			require.Equal(t, "known, pending", ep.state.String())
			s, reached := step(t, d, "a")

			done, err := d.Wrote(ep, reached, s.ACLs, versioned.Done{Version: "v2"}, tt.err)
			require.Equal(t, tt.done, done)
			require.Equal(t, tt.fails, err != nil)
			if err != nil {
				d.Failed(ep, err, time.Time{})
			} else if d.Endpoint("a") != nil {
				d.Queue(ep)
			}
			if tt.state == "" {
				require.Nil(t, d.Endpoint("a"))
				d.now = d.now.Add(listAgain)
				require.True(t, d.TakeListDue(), "its pod runs on")
				require.Empty(t, d.cache.Refs(ipsets.PodLabel("app", "web"))[1:], "but for the policy nobody needs the set")
				return
			}
			require.Equal(t, tt.state, ep.state.String())
			require.Len(t, ep.attempts, tt.lists)
			require.Equal(t, tt.lists == 0, ep.Version != "", "a write is planned from a version")
			d.Clock = testStart.Add(time.Minute)
			require.Equal(t, tt.read, slices.Contains(d.Singles(d.Clock), "a"))
			if tt.read {
				_, steps, _ := d.NextSteps("a")
				require.Empty(t, steps, "nothing is planned from what is not known")
			}
		})
	}
}

// TestPinsFollowSteps: what a step took away is pinned no more, though the rest of the update
// waits: while the set is needed nobody else is written, as long as its last write is in doubt.
func TestPinsFollowSteps(t *testing.T) {
	t.Parallel()
	d := begunWith(t, func(o *desired.Objects) { o.SetPolicy(fromApp("p", "web")) }, "a")
	ep, web, api := d.Endpoint("a"), ipsets.PodLabel("app", "web"), ipsets.PodLabel("app", "api")
	s, reached := step(t, d, "a")
	_, err := d.Wrote(ep, reached, s.ACLs, versioned.Done{Version: "v2"}, nil)
	require.NoError(t, err)
	d.Queue(ep)
	pin := ipsets.Ref{Kind: ipsets.RefPin, Owner: "a"}
	d.follow(func(o *desired.Objects) {
		o.DeletePolicy(policy.Key{Namespace: "x", Name: "p"})
		o.SetPolicy(fromApp("q", "api"))
	})
	require.Contains(t, d.cache.Refs(web), pin)
	require.Contains(t, d.cache.Refs(api), pin)
	closing := ep.shared(nil) // as closingSteps ask for
	_, err = d.Wrote(ep, acl.Canonical(closing), closing, versioned.Done{Version: "v3"}, nil)
	require.NoError(t, err)
	d.Failed(ep, ErrSetsNotReady, time.Time{})
	require.Empty(t, d.cache.Refs(web))
	require.Contains(t, d.cache.Refs(api), pin)
}

// TestFailedTries: a failure of sets ends when sets may be written, and no other does.
func TestFailedTries(t *testing.T) {
	t.Parallel()
	for err, woken := range map[error]bool{ErrSetsNotReady: true, hns.ErrInvalid: false} {
		d := begunWith(t, func(o *desired.Objects) { o.SetPolicy(fromApp("p", "web")) }, "a")
		ep := d.Endpoint("a")
		d.Failed(ep, err, testStart.Add(time.Minute))
		d.Wake()
		require.Equal(t, woken, ep.retryAt.IsZero())
	}
}

// TestGone: an endpoint that a write finds gone has endpoints listed, and another one within a
// second only after that, as HNS may go on listing what it does not find.
func TestGone(t *testing.T) {
	t.Parallel()
	d := begun(t, "a", "b")
	d.follow(func(o *desired.Objects) { o.SetPolicy(fromApp("p", "web")) })
	gone := func(id string) {
		s, reached := step(t, d, id)
		_, err := d.Wrote(d.Endpoint(id), reached, s.ACLs, versioned.Done{}, &hns.OpError{Kind: hns.KindEndpoint, Err: hns.ErrNotFound})
		require.NoError(t, err)
	}
	due := func(after time.Duration) bool { // without taking it
		was := d.listing
		d.now = d.Clock.Add(after)
		is := d.TakeListDue()
		d.listing = was
		return is
	}
	gone("a")
	require.True(t, d.TakeListDue())
	d.TakeList([]string{"b"}, nil)
	require.False(t, due(0))
	gone("b")
	require.False(t, due(0))
	require.True(t, due(listAgain))
	d.Clock = d.Clock.Add(listAgain / 2)
	d.listSoon()
	require.True(t, due(listAgain/2), "it is not put off")
}

// TestBlindAdds: a block that HNS took closes an endpoint that cannot be read. One that never
// answers is given so many, as it may have taken each of them.
func TestBlindAdds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		adds int // until it counts as closed
	}{
		"HNS took it":         {nil, 1},
		"HNS does not answer": {hns.ErrUnavailable, maxBlind},
	} {
		d := begunWith(t, func(o *desired.Objects) { o.SetPolicy(fromApp("p", "web")) }, "a")
		ep := d.Endpoint("a")
		s, reached := step(t, d, "a")
		_, err := d.Wrote(ep, reached, s.ACLs, versioned.Done{}, hns.ErrUnavailable)
		require.Error(t, err)
		for range tt.adds {
			require.True(t, ep.Open(), name)
			d.TakeBlindAdd(ep, ep.shield(), tt.err)
		}
		require.False(t, ep.Open(), name)
		require.Equal(t, "shielded, pending", ep.state.String(), name)
		d.TakeRead("a", hns.Endpoint{ID: "a", Addrs: ep.addrs}, nil)
		require.Equal(t, "known, pending", ep.state.String(), name)
		require.True(t, ep.Open(), "%s: the read shows that it is not", name)
	}
}

// TestUnlistedRefusals: after a code that nobody knows the same rules are sent once more, but on an
// endpoint that is open its policies are bisected at once.
func TestUnlistedRefusals(t *testing.T) {
	t.Parallel()
	unlisted := &versioned.Refused{Err: &hns.OpError{Kind: hns.KindACL, Err: hns.ErrUnlisted}}
	isolated := func(o *desired.Objects) { o.SetPolicy(fromApp("p", "web")) }
	running := begun(t, "a")
	running.follow(isolated)
	for name, tt := range map[string]struct {
		d    *Table
		same bool
	}{
		"open":    {begunWith(t, isolated, "a"), false},
		"running": {running, true},
	} {
		ep := tt.d.Endpoint("a")
		first, reached := step(t, tt.d, "a")
		_, err := tt.d.Wrote(ep, reached, first.ACLs, versioned.Done{}, unlisted)
		require.NoError(t, err, name)
		second, reached := step(t, tt.d, "a")
		require.Equal(t, tt.same, acl.Same(first.ACLs, second.ACLs), name)
		_, err = tt.d.Wrote(ep, reached, second.ACLs, versioned.Done{}, unlisted)
		require.Equal(t, tt.same, err == nil, name)
	}
}

// TestOutstandingModel: whatever is desired, however writes end and whenever HNS is read, the
// list that HNS has is one of those that are thought possible. When it is known, it is the
// one. Nothing is planned from what is not known, every set that HNS's rules may name is
// held, and what is known and differs waits for an update.
func TestOutstandingModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := begun(t, "a")
		if rapid.Bool().Draw(t, "open") {
			d = begunWith(t, func(o *desired.Objects) { o.SetPolicy(fromApp("p", "a")) }, "a")
		}
		actual := []hns.ACL{} // in HNS
		addrs := []netip.Addr{testAddr(0)}
		app := rapid.SampledFrom([]string{"a", "b", "c"})
		name := rapid.SampledFrom([]string{"p", "q"})
		t.Repeat(map[string]func(*rapid.T){
			"policy": func(t *rapid.T) {
				d.follow(func(o *desired.Objects) { o.SetPolicy(fromApp(name.Draw(t, "name"), app.Draw(t, "app"))) })
			},
			"delete": func(t *rapid.T) {
				d.follow(func(o *desired.Objects) { o.DeletePolicy(policy.Key{Namespace: "x", Name: name.Draw(t, "name")}) })
			},
			"write": func(t *rapid.T) {
				ep, steps, _ := d.NextSteps("a")
				if len(steps) == 0 {
					t.Skip("nothing to write")
				}
				s, reached := step(t, d, "a")
				how := rapid.SampledFrom([]string{"done", "done and lost", "lost"}).Draw(t, "how")
				is, err := versioned.Done{}, error(nil)
				if how != "lost" {
					actual = reached
				}
				if how == "done" {
					is.Version = hns.Basis(addrs, reached, ep.open)
				} else {
					err = hns.ErrUnavailable
				}
				if _, err = d.Wrote(ep, reached, s.ACLs, is, err); err != nil {
					d.Failed(ep, err, time.Time{})
				} else {
					d.Queue(ep)
				}
			},
			"block": func(t *rapid.T) {
				ep := d.Endpoint("a")
				if ep.Known() || !ep.Open() {
					t.Skip("it is not open")
				}
				block, err := ep.shield(), error(nil)
				if rapid.Bool().Draw(t, "taken") {
					actual = acl.Canonical(slices.Concat(actual, block))
				} else {
					err = hns.ErrUnavailable
				}
				d.TakeBlindAdd(ep, block, err)
			},
			"read": func(*rapid.T) {
				e := hns.Endpoint{ID: "a", Addrs: addrs}
				for _, a := range actual {
					e.Policies = append(e.Policies, hns.NewACLPolicy(a))
				}
				d.TakeRead("a", e, nil)
				require.True(t, d.Endpoint("a").Known())
			},
			"": func(t *rapid.T) {
				ep := d.Endpoint("a")
				is := func(list []hns.ACL) bool { return acl.Same(list, actual) }
				blind := ep.blind > 0 // of several blocks any number may be there
				if !blind {
					require.True(t, slices.ContainsFunc(ep.possible(), is), "%s: %v is not one of %v", ep.state, actual, ep.possible())
				}
				for _, n := range namesOf(d.cache.Lookup, actual) {
					held := func(r ipsets.Ref) bool { return r.Kind == ipsets.RefActual || r.Kind == ipsets.RefPin }
					require.True(t, slices.ContainsFunc(d.cache.Refs(n), held), "%s: %s is not held", ep.state, n)
				}
				if ep.Known() {
					require.True(t, is(ep.Actual))
					require.Equal(t, ep.Pending(), !acl.Same(ep.Actual, ep.list))
					return
				}
				_, steps, _ := d.NextSteps("a")
				require.Empty(t, steps)
				require.True(t, ep.Pending())
				require.Contains(t, d.Singles(d.Clock.Add(time.Hour)), "a")
				require.Empty(t, ep.Actual)
				require.Empty(t, ep.Version)
				for i, list := range ep.attempts {
					require.False(t, slices.ContainsFunc(ep.attempts[:i], func(other []hns.ACL) bool { return slices.Equal(other, list) }), "twice: %v", list)
				}
			},
		})
	})
}
