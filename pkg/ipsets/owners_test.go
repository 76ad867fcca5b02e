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
		"not being deleted": {Claim{UID: "a", Started: early}, Claim{UID: "b", Deleting: true, Started: late}},
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
				require.Equal(t, tc.stronger.UID, o.Owner(addr1).UID)
				require.Empty(t, o.Owner(addr2))
				o.Drop(addr1, tc.stronger.UID)
				require.Equal(t, tc.weaker.UID, o.Owner(addr1).UID, "the next one inherits")
				o.Drop(addr1, tc.weaker.UID)
				require.Empty(t, o.Owner(addr1))
				require.Empty(t, len(o.first)+len(o.rest), "an address without claims is forgotten")
			}
		})
	}
}

// The owner depends on the claims alone, not on their history.
func TestOwnersModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, claims := NewOwners[plain](), map[string]Claim{}
		uid := rapid.Map(rapid.IntRange(0, 4), func(i int) string { return fmt.Sprint("uid-", i) })
		moment := rapid.Map(rapid.Int64Range(0, 2), func(s int64) time.Time { return time.Unix(s, 0) })
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				c := Claim{uid.Draw(t, "uid"), rapid.Bool().Draw(t, "deleting"), moment.Draw(t, "started"), moment.Draw(t, "created")}
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
				require.Equal(t, len(claims), len(o.first)+len(o.rest[key]))
				owner, has := claims[o.Owner(addr1).UID]
				require.Equal(t, len(claims) > 0, has)
				for _, c := range claims {
					require.False(t, stronger(c, owner), "%v against %v", c, owner)
				}
			},
		})
	})
}

// stronger is the order of design section 2 in plain words.
func stronger(a, b Claim) bool {
	switch {
	case a.Deleting != b.Deleting:
		return !a.Deleting
	case !a.Started.Equal(b.Started):
		return a.Started.After(b.Started)
	case !a.Created.Equal(b.Created):
		return a.Created.After(b.Created)
	}
	return a.UID > b.UID
}
