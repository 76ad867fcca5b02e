//go:build !windows

package main

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStartNeedsWindows(t *testing.T) {
	const none = "this build cannot reach a Host Networking Service on " + runtime.GOOS + "; kubectl npm simulate runs everywhere\n"
	code, stdout, stderr := command(t, "", "start", "--log-level", "error")
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Equal(t, "npm: start: "+none, stderr)
}
