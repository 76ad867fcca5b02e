package dataplane_test

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// asked is a node without HNS: an ask that notes each request, and answers that it was done.
type asked struct {
	*world
	plan  []string
	fails func(call int) error // nil: none does
}

func newAsked(t *testing.T) *asked {
	a := &asked{world: newWorld(t, func(cfg *dataplane.Config) { cfg.Client, cfg.Unchecked = nil, true })}
	a.dp.SetAsk(a.answer)
	a.do("namespace x", "pod x/web 10.0.0.1 app=v1", cVersions)
	return a
}

func (a *asked) answer(req hns.Request) (res hns.Result) {
	what := req.Op
	if n := len(req.Sets) + len(req.ACLs); n > 0 {
		what = fmt.Sprintf("%s of %d", what, n)
	}
	a.plan = append(a.plan, what)
	switch req.Op {
	case hns.OpEndpointIDs:
		res.IDs = []string{"ep"}
	case hns.OpEndpointGet:
		res.Endpoint = hns.Endpoint{ID: req.Endpoint, Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	}
	if a.fails != nil {
		res.Err = a.fails(len(a.plan))
	}
	return res
}

func (a *asked) apply() (state.Report, error) { return a.dp.ApplyDataplane(a.t.Context(), a.tx) }

// TestAsk: an injected ask shows the plan of a transaction, fails at each call, and crashes
// at each call, all without HNS. A failure ends in a report, and later transactions do the
// rest. A crash reaches the caller, and leaves no lock behind.
func TestAsk(t *testing.T) {
	whole := newAsked(t)
	report, err := whole.apply()
	require.NoError(t, err)
	require.True(t, report.Converged())
	require.Equal(t, []string{"Network/Get", "Endpoint/Enumerate", "Endpoint/Get", "SetPolicy/Add of 2", "ACL/Add of 4"}, whole.plan)

	for call := range whole.plan {
		t.Run(whole.plan[call], func(t *testing.T) {
			a := newAsked(t)
			a.fails = func(n int) error {
				if n == call+1 {
					return errors.New("a call failed")
				}
				return nil
			}
			report, err := a.apply()
			require.NoError(t, err)
			require.Len(t, report.Errors, 1)
			a.settle()
			require.Empty(t, a.dp.Dump().Pending)

			before := runtime.NumGoroutine()
			crash := newAsked(t)
			crash.fails = func(n int) error {
				if n == call+1 {
					panic("a crash")
				}
				return nil
			}
			require.PanicsWithValue(t, "a crash", func() { _, _ = crash.apply() })
			require.Equal(t, whole.plan[:call+1], crash.plan, "nothing is asked after it")
			require.NotZero(t, crash.dp.Dump().Time)
			require.LessOrEqual(t, runtime.NumGoroutine(), before)
		})
	}
}
