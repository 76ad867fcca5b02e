package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServicePID(t *testing.T) {
	for service, runs := range map[string]bool{"RpcSs": true, "no such service": false} {
		pid, err := servicePID(service)
		require.NoError(t, err)
		require.Equal(t, runs, pid != 0, "%s: %d", service, pid)
	}
}
