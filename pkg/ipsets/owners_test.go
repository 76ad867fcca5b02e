package ipsets

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// plain is a claimant that is nothing else.
type plain Claim

func (p plain) Claim() Claim { return Claim(p) }

func TestOwnerOrder(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	for title, tc := range map[string]struct{ stronger, weaker Claim }{
		"not being deleted": {Claim{UID: "a", Started: early}, Claim{UID: "b", Local: true, Deleting: true, Started: late}},
		"of this node":      {Claim{UID: "a", Local: true, Started: early}, Claim{UID: "b", Namespace: "y", Started: late, Created: late}},
		"later start":       {Claim{UID: "a", Started: late, Created: early}, Claim{UID: "b", Started: early, Created: late}},
		"later creation":    {Claim{UID: "a", Created: late}, Claim{UID: "b", Created: early}},
		"greater uid":       {Claim{UID: "b"}, Claim{UID: "a"}},
	} {
		t.Run(title, func(t *testing.T) {
			for _, order := range [][]Claim{{tc.stronger, tc.weaker}, {tc.weaker, tc.stronger}} {
				o := NewOwners[plain]()
				for _, c := range order {
					o.Set(addr1, plain(c))
				}
				require.Equal(t, tc.stronger.UID, o.Ownership(addr1).Owner.UID)
				require.False(t, o.Ownership(addr1).Doubt)
				require.Empty(t, o.Ownership(addr2))
				o.Drop(addr1, tc.stronger.UID)
				require.Equal(t, tc.weaker.UID, o.Ownership(addr1).Owner.UID, "the next one inherits")
				o.Drop(addr1, tc.weaker.UID)
				require.Empty(t, o.Ownership(addr1))
				require.Empty(t, o.claims, "an address without claims is forgotten")
			}
		})
	}
}

// TestOwnership: whose an address is when several claim it, in every order of the
// claims.
func TestOwnership(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	victim := Claim{UID: "v", Namespace: "a", Local: true, Started: early}
	leaving := Claim{UID: "v", Namespace: "a", Local: true, Deleting: true, Started: early}
	there := Claim{UID: "v", Namespace: "a", Started: early}
	for title, tc := range map[string]struct {
		claims []Claim
		owner  string
		doubt  bool
		home   []string
	}{
		"one of this node":               {[]Claim{victim}, "v", false, []string{"v"}},
		"one of another":                 {[]Claim{there}, "v", false, nil},
		"another node's pod":             {[]Claim{victim, {UID: "t", Namespace: "b", Started: late}}, "v", false, []string{"v"}},
		"of the same namespace":          {[]Claim{victim, {UID: "t", Namespace: "a", Started: late}}, "v", false, []string{"v"}},
		"while it leaves":                {[]Claim{leaving, {UID: "t", Namespace: "b", Started: late}}, "t", false, []string{"v"}},
		"its successor":                  {[]Claim{victim, {UID: "s", Namespace: "a", Local: true, Started: late}}, "s", false, []string{"s"}},
		"another tenant's, here":         {[]Claim{victim, {UID: "t", Namespace: "b", Local: true, Started: late}}, "t", true, []string{"t", "v"}},
		"another tenant's, older":        {[]Claim{victim, {UID: "t", Namespace: "b", Local: true}}, "v", true, []string{"v", "t"}},
		"two of another tenant":          {[]Claim{victim, {UID: "t", Namespace: "b", Local: true}, {UID: "u", Namespace: "b", Local: true, Started: late}}, "u", true, []string{"u", "v"}},
		"another tenant's successor":     {[]Claim{leaving, {UID: "s", Namespace: "b", Local: true, Started: late}}, "s", false, []string{"s"}},
		"all leave":                      {[]Claim{leaving, {UID: "s", Namespace: "b", Local: true, Deleting: true, Started: late}}, "s", false, []string{"s"}},
		"both elsewhere":                 {[]Claim{there, {UID: "t", Namespace: "b", Started: late}}, "t", true, nil},
		"both elsewhere, one tenant":     {[]Claim{there, {UID: "t", Namespace: "a", Started: late}}, "t", false, nil},
		"elsewhere, and one leaves":      {[]Claim{there, {UID: "t", Namespace: "b", Deleting: true, Started: late}}, "v", false, nil},
		"two elsewhere, one leaves":      {[]Claim{leaving, {UID: "t", Namespace: "b", Started: late}, {UID: "u", Namespace: "c"}}, "t", true, []string{"v"}},
		"elsewhere, of a lost node":      {[]Claim{there, {UID: "t", Namespace: "b", Trust: Lost, Started: late}}, "v", false, nil},
		"elsewhere, of two lost nodes":   {[]Claim{{UID: "v", Namespace: "a", Trust: Lost}, {UID: "t", Namespace: "b", Trust: Lost, Started: late}}, "t", true, nil},
		"elsewhere, of a lost node only": {[]Claim{{UID: "v", Namespace: "a", Trust: Lost}}, "v", false, nil},
		"one outside, one inside":        {[]Claim{{UID: "v", Namespace: "a", Trust: Inside}, {UID: "t", Namespace: "b", Trust: Outside, Started: late}}, "v", false, nil},
		"one outside, one unjudged":      {[]Claim{there, {UID: "t", Namespace: "b", Trust: Outside, Started: late}}, "v", true, nil},
		"one inside, one unjudged":       {[]Claim{there, {UID: "t", Namespace: "b", Trust: Inside}}, "t", true, nil},
		"one inside, one lost inside":    {[]Claim{{UID: "v", Namespace: "a", Trust: Inside}, {UID: "t", Namespace: "b", Trust: Lost, Started: late}}, "v", false, nil},
		"two elsewhere, one is here":     {[]Claim{victim, {UID: "t", Namespace: "b", Started: late}, {UID: "u", Namespace: "c"}}, "v", false, []string{"v"}},
	} {
		t.Run(title, func(t *testing.T) {
			for first := range tc.claims {
				for _, step := range []int{1, len(tc.claims) - 1} {
					o := NewOwners[plain]()
					for i := range tc.claims {
						o.Set(addr1, plain(tc.claims[(first+i*max(step, 1))%len(tc.claims)]))
					}
					s := o.Ownership(addr1)
					require.Equal(t, tc.owner, s.Owner.UID)
					require.Equal(t, tc.doubt, s.Doubt)
					require.Equal(t, tc.home, uids(s.Home))
				}
			}
		})
	}
}

func uids(claims []plain) []string {
	var out []string
	for _, c := range claims {
		out = append(out, c.UID)
	}
	return out
}

// The standing depends on the claims alone, not on their history, and is what the
// words of ADR 17 say.
func TestOwnersModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, claims := NewOwners[plain](), map[string]Claim{}
		uid := rapid.Map(rapid.IntRange(0, 4), func(i int) string { return fmt.Sprint("uid-", i) })
		moment := rapid.Map(rapid.Int64Range(0, 2), func(s int64) time.Time { return time.Unix(s, 0) })
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				c := Claim{
					UID: uid.Draw(t, "uid"), Namespace: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"), Local: rapid.Bool().Draw(t, "local"),
					Deleting: rapid.Bool().Draw(t, "deleting"), Started: moment.Draw(t, "started"), Created: moment.Draw(t, "created"),
				}
				o.Set(addr1, plain(c))
				claims[c.UID] = c
			},
			"drop": func(t *rapid.T) {
				u := uid.Draw(t, "uid")
				o.Drop(addr1, u)
				delete(claims, u)
			},
			"": func(t *rapid.T) {
				key, _ := addrOf(addr1)
				require.Len(t, o.claims[key], len(claims))
				s := o.Ownership(addr1)
				owner, has := claims[s.Owner.UID]
				require.Equal(t, len(claims) > 0, has)
				best, doubt := map[string]Claim{}, false // the strongest local one that stays, by namespace
				var last *Claim                          // the strongest local one that does not
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
					home = append(home, c.UID)
				}
				if len(home) == 0 && last != nil {
					home = []string{last.UID}
				}
				require.ElementsMatch(t, home, uids(s.Home))
				few, all := o.Rivals(addr1, 2)
				require.Equal(t, live, all)
				require.Len(t, few, min(live, 2))
			},
		})
	})
}

// stronger is the order of ADR 17 in plain words.
func stronger(a, b Claim) bool {
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
