package replay

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
)

// reader is a player that is given reads, with three endpoints that were read
// before.
func reader() (*player, *playback) {
	p := &player{world: newWorld()}
	for i, id := range []string{"a", "b", "c"} {
		p.world.endpoints[id] = hns.Endpoint{ID: id, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})}}
	}
	p.world.sync(p.world.all())
	return p, &playback{step: &recorder.Step{}, out: &Step{}}
}

func enumeration(ids ...string) *recorder.Call {
	return &recorder.Call{Op: hns.OpEndpointIDs, IDs: ids, Count: len(ids)}
}

func failing(id string, class error) *recorder.Call {
	return &recorder.Call{Op: hns.OpEndpointGet, Endpoint: id, Error: &recorder.Error{
		Class: class.Error(), Op: hns.OpEndpointGet, Kind: hns.KindEndpoint, ID: id, Message: "no",
	}}
}

// TestEnumerations: what GUIDs say of endpoints, and what a build is told that asks
// once more than the recorded one.
func TestEnumerations(t *testing.T) {
	p, l := reader()
	require.Equal(t, []string{"b", "a", "x"}, p.read(l, enumeration("b", "a", "x")).IDs, "as it was recorded")
	require.Equal(t, map[string]bool{"c": true}, p.world.absent)
	require.Equal(t, []string{"a", "b", "x"}, p.world.read(asked{hns.Request{Op: hns.OpEndpointIDs}}).IDs)
	require.Equal(t, 1, l.out.Others)

	// Of x nobody knows whose it is. It is another network's, cannot be read, or is ours.
	_, err := p.world.fork().GetEndpoint(t.Context(), "x")
	require.ErrorIs(t, err, hns.ErrElsewhere)
	require.ErrorIs(t, p.world.read(asked{hns.Request{Op: hns.OpEndpointGet, Endpoint: "x"}}).Err, hns.ErrElsewhere)
	require.ErrorIs(t, p.read(l, failing("x", hns.ErrElsewhere)).Err, hns.ErrElsewhere)
	require.Empty(t, l.out.Findings, "the simulator answers that too")
	require.ErrorIs(t, p.read(l, failing("x", hns.ErrUnlisted)).Err, hns.ErrUnlisted)
	require.Equal(t, Answer, l.out.Findings[0].Kind)
	p.read(l, &recorder.Call{Op: hns.OpEndpointGet, Endpoint: "x", Endpoints: []recorder.EndpointValue{{ID: "x", Policies: []hns.EndpointPolicy{}}}})
	require.Empty(t, p.world.strange)

	// One that came back is attached again; one that is not enumerated any more is no
	// stranger.
	p.read(l, enumeration("c", "y"))
	p.read(l, enumeration("c", "z"))
	require.Equal(t, map[string]bool{"a": true, "b": true, "x": true}, p.world.absent)
	require.Equal(t, map[string]bool{"z": true}, p.world.strange)
	ids, err := p.world.judge.EndpointIDs(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"c"}, ids)

	// One of ours that another network has by now.
	p.read(l, failing("c", hns.ErrElsewhere))
	require.NotContains(t, p.world.endpoints, "c")
	require.Equal(t, []string{"c", "z"}, p.world.ids(), "it is enumerated all the same")
	require.Len(t, l.out.Findings, 1, "others made and removed endpoints")
}

// TestEnumerationThatWasCut: of too many GUIDs to be kept, those that the world has
// are it when they have the digest.
func TestEnumerationThatWasCut(t *testing.T) {
	p, l := reader()
	p.read(l, &recorder.Call{Op: hns.OpEndpointIDs, Cut: true, Count: 3, Digest: recorder.DigestValues([]string{"c", "b", "a"})})
	require.False(t, l.unsure)
	ids := p.read(l, &recorder.Call{Op: hns.OpEndpointIDs, Cut: true, Count: 3, Digest: recorder.DigestValues([]string{"c", "b", "x"})}).IDs
	require.Equal(t, []string{"a", "b", "c"}, ids)
	require.True(t, l.unsure)
	require.Empty(t, p.world.absent)
	p.found(l, nil, Finding{Kind: Build, Text: "x"})
	require.Equal(t, Note, l.out.Findings[0].Kind)
}

// TestOutdated: an observation that began before the first state is not played when
// a transaction may have come between. A number that lacks may be that of a look
// that was not kept, so it counts only when the times do not tell.
func TestOutdated(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(1_800_000_000+int64(seconds), 0) }
	for name, tc := range map[string]struct {
		began int
		next  uint64 // number of the first transaction; the observation is 3
		last  int    // when the transaction before the state was over; 0: there was none
		want  bool
	}{
		"nothing came between":          {10, 4, 5, false},
		"a look did":                    {10, 5, 5, false},
		"a transaction did":             {10, 5, 15, true},
		"perhaps":                       {10, 5, 10, true},
		"no number is left":             {10, 4, 10, false},
		"there was no transaction":      {10, 5, 0, false},
		"it began after the state":      {30, 5, 15, false},
		"it began with the state":       {20, 5, 15, false},
		"over with the state, it began": {15, 5, 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &player{rec: &recorder.Recording{
				Start: &state.Dump{Time: at(20)},
				Steps: []recorder.Step{
					{Number: 3, Kind: recorder.Observation, Began: at(tc.began)}, {Number: tc.next, Kind: recorder.Transaction, Began: at(40)},
				},
			}}
			if tc.last > 0 {
				p.rec.Start.Reports = []state.Report{{Started: at(tc.last - 2), Took: 2 * time.Second}}
			}
			require.Equal(t, tc.want, p.outdated(0))
		})
	}
}

// TestLooked: what an observation was asked to read, in words.
func TestLooked(t *testing.T) {
	for want, step := range map[string]recorder.Step{
		"reading HNS":                                {},
		"reading HNS, failed 1 time more":            {Look: &dataplane.Look{Enumerate: true, Sets: true, All: true}, Again: 1},
		"reading all endpoints, failed 3 times more": {Look: &dataplane.Look{All: true}, Again: 3},
		"reading GUIDs, sets, 2 endpoints":           {Look: &dataplane.Look{Enumerate: true, Sets: true, Endpoints: []string{"e", "f"}}},
		"reading e":                                  {Look: &dataplane.Look{Endpoints: []string{"e"}}},
		"reading nothing":                            {Look: &dataplane.Look{}},
	} {
		step.Kind = recorder.Observation
		require.Equal(t, want, came(&step))
	}
}

// TestArgumentsOfEnumerations: GUIDs are told, or how many there are.
func TestArgumentsOfEnumerations(t *testing.T) {
	require.Equal(t, []string{"endpoints: a b"}, arguments(*enumeration("a", "b")))
	require.Equal(t, []string{"endpoints: 300 GUIDs, not kept"}, arguments(recorder.Call{Op: hns.OpEndpointIDs, Cut: true, Count: 300}))
	require.Empty(t, arguments(recorder.Call{Op: hns.OpEndpointIDs, Running: true}))
}

// TestLookOf: an observation reads what was recorded; what is handed out may be
// changed.
func TestLookOf(t *testing.T) {
	require.Equal(t, dataplane.Everything(), lookOf(&recorder.Step{}))
	s := recorder.Step{Look: &dataplane.Look{Sets: true, Endpoints: []string{"e"}}}
	look := lookOf(&s)
	require.Equal(t, *s.Look, look)
	look.Endpoints[0] = "x"
	require.Equal(t, "e", s.Look.Endpoints[0])
}

// TestUnreadEndpointOfTheRecording: an endpoint that the recorded dataplane had enumerated and read only
// later cannot be read yet for one that asks before that; what it does until then is
// no difference. One that is never read is somebody else's.
func TestUnreadEndpointOfTheRecording(t *testing.T) {
	p, l := reader()
	p.loose, p.unreadYet = true, map[string]bool{}
	later := recorder.Call{Op: hns.OpEndpointGet, Endpoint: "x", Endpoints: []recorder.EndpointValue{{ID: "x", Policies: []hns.EndpointPolicy{}}}}
	p.rec = &recorder.Recording{Steps: []recorder.Step{{Calls: []recorder.Call{*failing("y", hns.ErrElsewhere), later}}}}
	p.read(l, enumeration("a", "b", "c", "x", "y"))
	ask := func(id string) error {
		return p.unrecorded(t.Context(), l, asked{hns.Request{Op: hns.OpEndpointGet, Endpoint: id}}).Err
	}
	require.ErrorIs(t, ask("y"), hns.ErrElsewhere)
	require.Empty(t, p.unreadYet)
	require.False(t, l.unsure)
	require.ErrorIs(t, ask("x"), hns.ErrUnavailable)
	other := &playback{step: &recorder.Step{}, out: &Step{}}
	p.found(other, nil, Finding{Kind: Build})
	require.Equal(t, Note, other.out.Findings[0].Kind)
	p.read(l, &later)
	other = &playback{step: &recorder.Step{}, out: &Step{}}
	p.found(other, nil, Finding{Kind: Build})
	require.Equal(t, Build, other.out.Findings[0].Kind)
}

// TestDoubtsOutlastAnAdd: a write that failed and may have been done is still there after an
// Add, which rewrites nothing, and no more after an Update.
func TestDoubtsOutlastAnAdd(t *testing.T) {
	rule := func(id string) hns.ACL {
		return hns.ACL{ID: hns.ACLIDPrefix + id, Action: hns.Allow, Direction: hns.In, Priority: 222}.Canonical()
	}
	policies := []hns.EndpointPolicy{hns.NewACLPolicy(rule("one")), hns.NewACLPolicy(rule("two"))}
	for name, tc := range map[string]struct {
		then hns.Request
		want Kind
	}{
		"an Add":     {hns.Request{Op: hns.OpACLAdd, Endpoint: "a", ACLs: []hns.ACL{rule("two")}}, Note},
		"an Update":  {hns.Request{Op: hns.OpACLUpdate, Endpoint: "a", Policies: policies[1:]}, State},
		"of another": {hns.Request{Op: hns.OpACLAdd, Endpoint: "b", ACLs: []hns.ACL{rule("two")}}, State},
	} {
		t.Run(name, func(t *testing.T) {
			p, l := reader()
			failed := asked{hns.Request{Op: hns.OpACLAdd, Endpoint: "a", ACLs: []hns.ACL{rule("one")}}}
			p.world.doubts[subject{endpoint: "a"}] = p.world.after(failed)
			p.world.do(asked{tc.then}, time.Time{})
			p.read(l, &recorder.Call{Op: hns.OpEndpointGet, Endpoint: "a", Endpoints: []recorder.EndpointValue{{ID: "a", Addrs: p.world.endpoints["a"].Addrs, Policies: policies, Count: 2}}})
			require.Equal(t, tc.want, l.out.Findings[0].Kind, l.out.Findings)
			require.Empty(t, p.world.doubts[subject{endpoint: "a"}], "it was read")
		})
	}
}

// TestDoubts: of several writes that failed any may have been done, and each of them
// in part. What none of them brought is somebody else's.
func TestDoubts(t *testing.T) {
	rule := func(id string) hns.ACL {
		return hns.ACL{ID: hns.ACLIDPrefix + id, Action: hns.Allow, Direction: hns.In, Priority: 222}.Canonical()
	}
	for name, tc := range map[string]struct {
		has  []string
		want Kind
	}{
		"the first one":       {[]string{"one"}, Note},
		"half of the second":  {[]string{"two"}, Note},
		"the second":          {[]string{"two", "three"}, Note},
		"both":                {[]string{"one", "two", "three"}, Note},
		"the first one twice": {[]string{"one", "one"}, State},
		"another one":         {[]string{"one", "four"}, State},
	} {
		t.Run(name, func(t *testing.T) {
			p, l := reader()
			s := subject{endpoint: "a"}
			p.world.doubts[s] = []doubt{{step: 1, call: 1, rules: []hns.ACL{rule("one")}}, {step: 1, call: 2, rules: []hns.ACL{rule("two"), rule("three")}}}
			var is []hns.ACL
			for _, id := range tc.has {
				is = append(is, rule(id))
			}
			p.rulesDiffer(l, &recorder.Call{}, s, nil, is, true)
			require.Equal(t, tc.want, l.out.Findings[0].Kind)
		})
	}
}
