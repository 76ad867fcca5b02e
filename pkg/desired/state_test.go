package desired

import (
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// newTestState returns a State of an empty cluster with the usual budgets.
func newTestState() *State {
	return New(Settings{Budgets: policy.DefaultBudgets()}, ipsets.NewCache(), func(string, string, string, string) {})
}
