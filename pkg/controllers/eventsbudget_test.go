package controllers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
)

// A policy that is over its budget has one Event, of which every node would say the
// same, and one when that has passed.
func TestOverBudgetIsTold(t *testing.T) {
	runEvents(t, []string{"a"}, func(w *world) {
		over := state.Warning{Object: "x/a", Kind: "NetworkPolicy", Reason: state.ReasonOverBudget, Message: "spec: it is too long"}
		w.activate(over)
		e := w.one()
		require.Equal(t, "OverBudget", e.Reason)
		require.Equal(t, "a", e.Regarding.Name)
		require.Contains(t, e.Note, "every other Windows node")
		w.activate(over)
		require.Empty(t, w.took())
		w.activate()
		require.Equal(t, []string{"Normal a Programmed"}, w.took())
	})
}
