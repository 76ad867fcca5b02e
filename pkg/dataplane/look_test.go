package dataplane_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// TestWhatATransactionReadCanWait: the sets and the GUIDs were read by the first
// transaction, so neither is looked at at once.
func TestWhatATransactionReadCanWait(t *testing.T) {
	w := newWorld(t, "")
	began := w.now
	w.settle()
	look, at := w.dp.NextLook()
	require.Equal(t, dataplane.Look{Enumerate: true}, look)
	require.Equal(t, 5*time.Second, at.Sub(began).Round(time.Second))
}
