package dataplane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/desired"
)

// TestStagePanics: a panic under the state lock reaches the caller, and leaves no lock behind.
func TestStagePanics(t *testing.T) {
	d := New(Config{Now: time.Now})
	is := d.node.desired
	d.node.desired = nil
	tx := NewTransaction()
	tx.SetNamespace(desired.Namespace{Name: "x"})
	require.Panics(t, func() { _, _ = d.ApplyDataplane(t.Context(), tx) })
	require.NotZero(t, d.Progress(), "it says where it was")
	d.node.desired = is
	require.NotZero(t, d.Dump().Time)
}
