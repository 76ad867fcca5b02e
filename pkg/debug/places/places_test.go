package places

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlaces(t *testing.T) {
	p := New[string](3, 2)
	require.True(t, p.Take("a"))
	require.True(t, p.Take("a"))
	require.False(t, p.Take("a"), "a has its two")
	require.True(t, p.Take("b"))
	require.False(t, p.Take("c"), "all are taken")
	p.Free("a")
	require.True(t, p.Take("c"))
	p.Free("a")
	p.Free("b")
	p.Free("c")
	require.Zero(t, p.taken)
	require.Empty(t, p.by, "nothing is kept of clients without a place")
}
