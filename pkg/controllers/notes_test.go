package controllers

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
)

// TestNotes: contested addresses are named as long as they stand, a few of them, and
// leave the agent ready. A transaction that failed says nothing of them.
func TestNotes(t *testing.T) {
	c := New(Config{Source: newCluster().source()})
	var warnings []state.Warning
	for i := range 10 {
		warnings = append(warnings,
			state.Warning{Object: fmt.Sprintf("x/p%d", i), Kind: "Pod", Reason: state.ReasonAddressContested, Message: "it is claimed"},
			state.Warning{Object: fmt.Sprintf("x/p%d", i), Kind: "Pod", Reason: state.ReasonHNSRejected, Message: "no"})
	}
	c.status.applied(state.Report{Warnings: warnings[:2]}, nil)
	require.Equal(t, []string{"Pod x/p0: it is claimed"}, c.Notes())
	require.NoError(t, c.Ready())
	c.status.applied(state.Report{}, errors.New("broke off"))
	require.Len(t, c.Notes(), 1)
	c.status.applied(state.Report{Warnings: warnings}, nil)
	require.Len(t, c.Notes(), 9)
	require.Equal(t, "and 2 more: see the warnings of the dump", c.Notes()[8])
	c.status.applied(state.Report{}, nil)
	require.Empty(t, c.Notes())
}
