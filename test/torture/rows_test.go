package torture

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// elsewhere has the rows of docs/scenarios.md that no scenario plays, with the test that has each.
var elsewhere = map[string]string{
	"B5": "a call that never returns ends nothing here, where one goroutine plays: TestScenario_B5_CallThatNeverReturns (test/windows/agent)",
	"C4": "the harness has one network: the contract suite asks about an endpoint of another network (test/hnstest)",
}

// TestEveryRow: every row about a single node has a scenario, unless another test has it.
func TestEveryRow(t *testing.T) {
	t.Parallel()
	played := map[string]bool{}
	for _, sc := range scenarios(t) {
		row, _, _ := strings.Cut(sc.name, " ")
		played[row] = true
	}
	text, err := os.ReadFile("../../docs/scenarios.md")
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^\| ([A-D]\d+) \|`).FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(rows), 30)
	for _, row := range rows {
		assert.Equal(t, elsewhere[row[1]] == "", played[row[1]], "row %s", row[1])
	}
}
