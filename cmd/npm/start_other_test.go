//go:build !windows

package main

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStartNeedsWindows(t *testing.T) {
	const none = "the Host Networking Service of Windows Server 2022 or later is missing: this build is for " + runtime.GOOS + "\n"
	code, stdout, stderr := command(t, "", "start", "--log-level", "error")
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Equal(t, "npm: start: "+none, stderr)
}
