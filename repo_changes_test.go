package winnpm_test

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDesignLeadsToChanges: docs/design.md names each file that CONTRIBUTING.md says one of
// its ten changes touches, so that whoever reads that page alone finds them all.
func TestDesignLeadsToChanges(t *testing.T) {
	t.Parallel()
	contributing, err := os.ReadFile("CONTRIBUTING.md")
	require.NoError(t, err)
	design, err := os.ReadFile("docs/design.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(contributing), "\n| change | files |\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[1:]
	require.Len(t, rows, 10)
	for _, row := range rows {
		for _, match := range quoted.FindAllStringSubmatch(row, -1) {
			if !pathName.MatchString(match[1]) {
				continue
			}
			if name := path.Base(match[1]); !strings.Contains(string(design), name) && match[1] != "docs/design.md" {
				t.Errorf("docs/design.md does not name %s: %.60s…", match[1], row)
			}
		}
	}
}
