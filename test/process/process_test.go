package process

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProcess(t *testing.T) {
	const size = 8 << 20
	live, allocated := Live(), Allocated()
	kept := make([]byte, size)
	require.InDelta(t, size, Live()-live, size/4, "live while it is needed")
	require.GreaterOrEqual(t, Allocated()-allocated, uint64(size))
	runtime.KeepAlive(kept)
	require.InDelta(t, 0, Live()-live, size/4, "and not after that")
	require.GreaterOrEqual(t, Allocated()-allocated, uint64(size), "it stays allocated")
}
