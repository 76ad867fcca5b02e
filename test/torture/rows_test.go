package torture

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// rows are the scenarios of docs/scenarios.md. Each has a file of its name in testdata. For
// one that cannot be played here, this says why and which test has it.
var rows = []struct{ row, elsewhere string }{
	{"A1", ""}, // the last pod of a set that a rule still names
	{"A2", ""}, // a set leaves and comes back before the update got through
	{"A3", ""}, // the reconciler between the events
	{"A4", ""}, // restarts, also after the predecessor
	{"A5", ""}, // somebody else's newer change
	{"B1", ""}, // one endpoint fails every time
	{"B2", ""}, // a set fails
	{"B3", ""}, // away for ten minutes
	{"B4", ""}, // several restarts during start-up
	{"B5", "a call that never returns ends nothing here, where one goroutine plays: TestScenario_B5_CallThatNeverReturns (test/windows/agent)"},
	{"B6", ""}, // HNS lost everything
	{"B7", ""}, // ours gone by hand
	{"B8", ""}, // policies and sets churn while pods are relabelled; concurrently: TestScenario_A3_OneWriter in pkg/dataplane
	{"C1", ""}, // an address is used again
	{"C2", ""}, // the endpoint comes late
	{"C3", ""}, // a listing fails
	{"C4", "the harness has one network: the contract suite asks about an endpoint of another network (test/hnstest)"},
	{"C5", ""},  // relabelled within one expression
	{"C6", ""},  // the endpoint goes
	{"C7", ""},  // a pod finishes
	{"C8", ""},  // the host's network
	{"C9", ""},  // a new endpoint beside the old
	{"C10", ""}, // the pod before its namespace
	{"D1", ""},  // edits
	{"D2", ""},  // deleted before the retry
	{"D3", ""},  // the end is the start
	{"D4", ""},  // many policies
	{"D10", ""}, // a namespace's label
	{"D11", ""}, // a namespace goes
	{"D12", ""}, // the last member
}

// TestEveryRow: no row is without a scenario, unless another test has it.
func TestEveryRow(t *testing.T) {
	t.Parallel()
	played := map[string]bool{}
	for _, sc := range scenarios(t) {
		row, _, _ := strings.Cut(sc.name, " ")
		played[row] = true
	}
	for _, r := range rows {
		assert.Equal(t, r.elsewhere == "", played[r.row], "row %s", r.row)
	}
}
