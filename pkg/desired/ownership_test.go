package desired

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

var addr1, addr2 = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

// claiming returns a pod that claims addr1.
func claiming(p Pod) *PodState {
	p.Addr = addr1
	return &PodState{Pod: &p}
}

// TestOwnership: whose an address is when several claim it, in every order of the
// claims.
func TestOwnership(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	victim := Pod{UID: "v", Namespace: "a", Local: true, Started: early}
	leaving := Pod{UID: "v", Namespace: "a", Local: true, Deleting: true, Started: early}
	there := Pod{UID: "v", Namespace: "a", Started: early}
	for title, tc := range map[string]struct {
		claims []Pod
		owner  types.UID
		doubt  bool
		home   []string
	}{
		"one of this node":               {[]Pod{victim}, "v", false, []string{"v"}},
		"one of another":                 {[]Pod{there}, "v", false, nil},
		"another node's pod":             {[]Pod{victim, {UID: "t", Namespace: "b", Started: late}}, "v", false, []string{"v"}},
		"of the same namespace":          {[]Pod{victim, {UID: "t", Namespace: "a", Started: late}}, "v", false, []string{"v"}},
		"while it leaves":                {[]Pod{leaving, {UID: "t", Namespace: "b", Started: late}}, "t", false, []string{"v"}},
		"its successor":                  {[]Pod{victim, {UID: "s", Namespace: "a", Local: true, Started: late}}, "s", false, []string{"s"}},
		"another tenant's, here":         {[]Pod{victim, {UID: "t", Namespace: "b", Local: true, Started: late}}, "t", true, []string{"t", "v"}},
		"another tenant's, older":        {[]Pod{victim, {UID: "t", Namespace: "b", Local: true}}, "v", true, []string{"v", "t"}},
		"two of another tenant":          {[]Pod{victim, {UID: "t", Namespace: "b", Local: true}, {UID: "u", Namespace: "b", Local: true, Started: late}}, "u", true, []string{"u", "v"}},
		"another tenant's successor":     {[]Pod{leaving, {UID: "s", Namespace: "b", Local: true, Started: late}}, "s", false, []string{"s"}},
		"all leave":                      {[]Pod{leaving, {UID: "s", Namespace: "b", Local: true, Deleting: true, Started: late}}, "s", false, []string{"s"}},
		"both elsewhere":                 {[]Pod{there, {UID: "t", Namespace: "b", Started: late}}, "t", true, nil},
		"both elsewhere, one tenant":     {[]Pod{there, {UID: "t", Namespace: "a", Started: late}}, "t", false, nil},
		"elsewhere, and one leaves":      {[]Pod{there, {UID: "t", Namespace: "b", Deleting: true, Started: late}}, "v", false, nil},
		"two elsewhere, one leaves":      {[]Pod{leaving, {UID: "t", Namespace: "b", Started: late}, {UID: "u", Namespace: "c"}}, "t", true, []string{"v"}},
		"elsewhere, of a lost node":      {[]Pod{there, {UID: "t", Namespace: "b", Trust: Lost, Started: late}}, "v", false, nil},
		"elsewhere, of two lost nodes":   {[]Pod{{UID: "v", Namespace: "a", Trust: Lost}, {UID: "t", Namespace: "b", Trust: Lost, Started: late}}, "t", true, nil},
		"elsewhere, of a lost node only": {[]Pod{{UID: "v", Namespace: "a", Trust: Lost}}, "v", false, nil},
		"one outside, one inside":        {[]Pod{{UID: "v", Namespace: "a", Trust: Inside}, {UID: "t", Namespace: "b", Trust: Outside, Started: late}}, "v", false, nil},
		"one outside, one unjudged":      {[]Pod{there, {UID: "t", Namespace: "b", Trust: Outside, Started: late}}, "v", true, nil},
		"one inside, one unjudged":       {[]Pod{there, {UID: "t", Namespace: "b", Trust: Inside}}, "t", true, nil},
		"one inside, one lost inside":    {[]Pod{{UID: "v", Namespace: "a", Trust: Inside}, {UID: "t", Namespace: "b", Trust: Lost, Started: late}}, "v", false, nil},
		"two elsewhere, one is here":     {[]Pod{victim, {UID: "t", Namespace: "b", Started: late}, {UID: "u", Namespace: "c"}}, "v", false, []string{"v"}},
	} {
		t.Run(title, func(t *testing.T) {
			for first := range tc.claims {
				for _, step := range []int{1, len(tc.claims) - 1} {
					o := owners{}
					for i := range tc.claims {
						o.set(claiming(tc.claims[(first+i*max(step, 1))%len(tc.claims)]))
					}
					s := (&State{owners: o}).whose(addr1)
					require.Equal(t, tc.owner, s.Owner.UID)
					require.Equal(t, tc.doubt, s.Doubt)
					require.Equal(t, tc.home, uids(s.Home))
				}
			}
		})
	}
}

func uids(claims []*PodState) []string {
	var out []string
	for _, c := range claims {
		out = append(out, string(c.UID))
	}
	return out
}

// The standing depends on the claims alone, not on their history, and is what the
// words of ADR 17 say.
func TestOwnersModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, claims := owners{}, map[types.UID]Pod{}
		uid := rapid.Map(rapid.IntRange(0, 4), func(i int) types.UID { return types.UID(fmt.Sprint("uid-", i)) })
		moment := rapid.Map(rapid.Int64Range(0, 2), func(s int64) time.Time { return time.Unix(s, 0) })
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				c := Pod{
					UID: uid.Draw(t, "uid"), Namespace: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"), Local: rapid.Bool().Draw(t, "local"),
					Deleting: rapid.Bool().Draw(t, "deleting"), Started: moment.Draw(t, "started"), Created: moment.Draw(t, "created"),
				}
				o.set(claiming(c))
				claims[c.UID] = c
			},
			"drop": func(t *rapid.T) {
				u := uid.Draw(t, "uid")
				o.drop(claiming(Pod{UID: u}))
				delete(claims, u)
			},
			"": func(t *rapid.T) {
				require.Len(t, o[addr1], len(claims))
				require.Len(t, o, min(len(claims), 1), "an address without claims is forgotten")
				s := (&State{owners: o}).whose(addr1)
				require.Equal(t, len(claims) > 0, s.Owner != nil)
				var owner Pod
				if s.Owner != nil {
					require.Contains(t, claims, s.Owner.UID)
					owner = claims[s.Owner.UID]
				}
				best, doubt := map[string]Pod{}, false // the strongest local one that stays, by namespace
				var last *Pod                          // the strongest local one that does not
				live := 0
				for _, c := range claims {
					require.False(t, stronger(c, owner), "%v against %v", c, owner)
					if !c.Deleting {
						live++
						doubt = doubt || !owner.Deleting && c.Local == owner.Local && c.Namespace != owner.Namespace
					}
					if b, ok := best[c.Namespace]; c.Local && !c.Deleting && (!ok || stronger(c, b)) {
						best[c.Namespace] = c
					}
					if c.Local && c.Deleting && (last == nil || stronger(c, *last)) {
						last = &c
					}
				}
				require.Equal(t, doubt, s.Doubt)
				var home []string
				for _, c := range best {
					home = append(home, string(c.UID))
				}
				if len(home) == 0 && last != nil {
					home = []string{string(last.UID)}
				}
				require.ElementsMatch(t, home, uids(s.Home))
				require.Len(t, o.live(addr1), live)
			},
		})
	})
}

// TestSameClaim: a state of a pod takes the place of an earlier one only if compareClaims cannot tell
// them apart, whatever else claims the address.
func TestSameClaim(t *testing.T) {
	now := time.Unix(1, 0)
	base := Pod{UID: "a", Addr: addr1, Local: true, Started: now, Created: now}
	was := &PodState{Pod: &base}
	for what, change := range map[string]func(*PodState){
		"uid": func(p *PodState) { p.UID = "b" }, "node": func(p *PodState) { p.Local = false },
		"address": func(p *PodState) { p.Addr = addr2 }, "deleted": func(p *PodState) { p.Deleting = true },
		"trust": func(p *PodState) { p.Trust = Outside }, "lost": func(p *PodState) { p.LostUntil = now },
		"start": func(p *PodState) { p.Started = time.Unix(2, 0) }, "creation": func(p *PodState) { p.Created = time.Unix(2, 0) },
		"a start in the future": func(p *PodState) { p.early = true },
	} {
		pod := base
		is := &PodState{Pod: &pod}
		require.True(t, was.sameClaim(is))
		change(is)
		require.False(t, was.sameClaim(is), what)
		require.True(t, is.Addr != addr1 || compareClaims(was, is) != 0, what)
	}
}

// TestOneUIDTwice: two pods with one UID and address, as only broken objects have, take turns.
func TestOneUIDTwice(t *testing.T) {
	d := newTestState()
	for _, label := range []string{"a", "b"} {
		for _, name := range []string{"one", "two"} {
			in := NewObjects()
			in.SetPod(Pod{Namespace: "x", Name: name, UID: "u", Addr: addr1, Labels: map[string]string{"app": label}})
			d.Stage(&in, time.Time{})
			require.Equal(t, name, d.whose(addr1).Owner.Name)
			require.Len(t, d.owners[addr1], 1)
		}
	}
}

// stronger is the order of ADR 17 in plain words.
func stronger(a, b Pod) bool {
	switch {
	case a.Deleting != b.Deleting:
		return !a.Deleting
	case a.Local != b.Local:
		return a.Local
	case !a.Started.Equal(b.Started):
		return a.Started.After(b.Started)
	case !a.Created.Equal(b.Created):
		return a.Created.After(b.Created)
	}
	return a.UID > b.UID
}

// TestAssignable: what no machine of a network has is nobody's, from the first to the
// last of each block; what is beside it may be a pod's.
func TestAssignable(t *testing.T) {
	claims := func(a netip.Addr) bool { return (&PodState{Pod: &Pod{Addr: a}}).Claims() }
	for _, text := range []string{
		"0.0.0.0", "0.255.255.255", "127.0.0.0", "127.0.0.1", "127.255.255.255", "169.254.0.0", "169.254.255.255",
		"224.0.0.1", "239.255.255.255", "255.255.255.255", "::1", "fd00::1", "::ffff:10.0.0.1",
	} {
		require.False(t, claims(netip.MustParseAddr(text)), text)
	}
	require.False(t, claims(netip.Addr{}))
	for _, text := range []string{"1.0.0.0", "10.0.0.1", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "223.255.255.255", "240.0.0.1", "255.255.255.254"} {
		require.True(t, claims(netip.MustParseAddr(text)), text)
	}
}
