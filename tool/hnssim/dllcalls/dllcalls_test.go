package dllcalls

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCount: what is called with a context counts for it and for those around it,
// and for nobody else.
func TestCount(t *testing.T) {
	t.Parallel()
	Count(t.Context(), 1) // nobody asks
	var outer, inner, beside Meter
	around := Metered(t.Context(), &outer)
	within := Metered(around, &inner)
	Metered(around, &beside)
	Count(around, 1)
	Count(within, 2)
	require.Equal(t, []int{3, 2, 0}, []int{outer.Calls(), inner.Calls(), beside.Calls()})

	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() { Count(within, 1) })
	}
	callers.Wait()
	require.Equal(t, []int{13, 12}, []int{outer.Calls(), inner.Calls()})
}
