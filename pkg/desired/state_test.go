package desired

import (
	"time"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
)

// newTestState returns a State of an empty cluster with the usual budgets.
func newTestState() *State {
	return New(Settings{Budgets: policy.DefaultBudgets()}, ipsets.NewCache(), progress.New(time.Now))
}
