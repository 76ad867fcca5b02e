package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A second agent on the node waits, says so, writes nothing and reads nothing,
// and takes over when the first is gone.
func TestStartWaitsForAnotherAgent(t *testing.T) {
	fake := newFake()
	first := start(t, fake, "{}")
	first.becomes("/readyz", 200, "ok\n")
	before := fake.Counts() // everything that asked HNS

	second := start(t, fake, "{}")
	second.log("waiting for another agent on this node to end")
	second.becomes("/readyz", 503, "waiting for another agent on this node to end\n")
	second.becomes("/healthz", 200, "ok\n")
	code, _ := second.get("/npm/v1/debug/manager")
	require.Equal(t, 200, code)
	require.Equal(t, before, fake.Counts())

	// One that is stopped while it waits leaves the lock where it is.
	third := start(t, fake, "{}")
	third.log("waiting for another agent on this node to end")
	third.end()
	require.Len(t, fake.holders, 1)

	first.end()
	second.log("no other agent is on this node")
	second.becomes("/readyz", 200, "ok\n")
	second.end()
	require.Empty(t, fake.holders, "the lock is free")
}
