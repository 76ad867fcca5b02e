package dataplane_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/hnsfault"
)

// TestAsk: the calls of a transaction, and what becomes of a crash in each: it reaches the caller,
// nothing is asked after it, and it leaves no lock and no goroutine behind.
func TestAsk(t *testing.T) {
	begin := func() *world {
		w := newWorld(t)
		w.do("endpoint ep 10.0.0.1", "namespace x", "pod x/web 10.0.0.1 app=v1", cVersions)
		return w
	}
	whole := begin()
	whole.do("apply", "converged")
	var plan []string
	for _, c := range whole.sim.Calls() {
		plan = append(plan, c.Op)
	}
	require.Equal(t, []string{"Network/Get", "Endpoint/Enumerate", "Endpoint/Get", "SetPolicy/Add", "ACL/Add", "Endpoint/Get"}, plan)
	for crash := range plan {
		w := begin()
		var asked []string
		w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
			if when == hnsfault.After {
				return
			}
			if asked = append(asked, c.Op); len(asked) > crash {
				panic("a crash")
			}
		})
		before := runtime.NumGoroutine()
		require.PanicsWithValue(t, "a crash", func() { w.transact() })
		require.Equal(t, plan[:crash+1], asked, "nothing is asked after it")
		require.NotZero(t, w.dp.Dump().Time)
		require.LessOrEqual(t, runtime.NumGoroutine(), before)
	}
}
