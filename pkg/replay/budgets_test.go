package replay_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/policy"
)

// TestBudgets: what an agent closed by its own budgets is closed in the replay too, and nothing
// parts.
func TestBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStageOf(t, 0, policy.Budgets{ACLs: 1})
		s.begin()
		s.apply(allow("more", "job"))
		require.NotEmpty(t, s.dp.Dump().Warnings, "nothing is over the budget")
		result := s.replay()
		require.Empty(t, result.Stopped)
		for _, step := range result.Steps {
			require.Empty(t, step.Findings)
		}
		require.Empty(t, result.Final)
	})
}
