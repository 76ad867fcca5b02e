package endpoints

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
)

// TestBisection: whichever policies HNS rejects, these are quarantined and no others, the endpoint
// has its block all the time, and the requests are bounded. When
// HNS takes them again a few requests bring them.
func TestBisection(t *testing.T) {
	effort.Checks(t, effort.Of(25, 100))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "policies")
		bad := map[string]bool{}
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, min(n, 4), rapid.ID).Draw(t, "rejected") {
			bad[state.ACLID(policy.Key{Namespace: "x", Name: fmt.Sprintf("p%02d", i)})] = true
		}
		d := begunWith(t, func(o *desired.Objects) {
			for i := range n {
				o.SetPolicy(fromApp(fmt.Sprintf("p%02d", i), fmt.Sprint("app", i)))
			}
		}, "a")
		ep := d.Endpoint("a")
		isBad := func(a hns.ACL) bool { return bad[a.ID] }
		settle := func() (requests int) {
			for ep.Pending() {
				_, steps, _ := d.NextSteps("a")
				if len(steps) == 0 {
					break
				}
				s, reached := step(t, d, "a")
				requests++
				var err error
				if slices.ContainsFunc(reached, isBad) {
					err = &versioned.Refused{Err: &hns.OpError{Kind: hns.KindACL, Err: hns.ErrInvalid}}
				}
				_, err = d.Wrote(ep, reached, s.ACLs, versioned.Done{Version: "v"}, err)
				require.NoError(t, err)
				require.False(t, requests > 2 && ep.Open())
				d.Queue(ep)
			}
			return requests
		}
		log := bits.Len(uint(n))
		require.LessOrEqual(t, settle(), 4+2*(len(bad)+1)*(log+1))
		var got []string
		for key := range ep.rejected {
			got = append(got, state.ACLID(key))
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(bad)), got)
		require.False(t, slices.ContainsFunc(ep.Actual, isBad))

		d.Clock = d.Clock.Add(time.Minute)
		require.Equal(t, len(bad) > 0, len(d.DueQuarantines(d.Clock)) > 0)
		d.TryQuarantined("a", d.Clock)
		require.Equal(t, len(bad), settle(), "each is asked for once more")
		clear(bad)
		d.Clock = d.Clock.Add(time.Hour)
		d.TryQuarantined("a", d.Clock)
		settle()
		require.Empty(t, ep.rejected)
		require.Len(t, ep.Actual, n+1+2)
	})
}
