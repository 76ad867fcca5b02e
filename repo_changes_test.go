package winnpm_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDesignLeadsToChanges: CONTRIBUTING.md and docs/design.md have the same ten changes.
// Whatever file the first names is there, and the second names it in the row of that change,
// with its package: whoever reads that page alone finds them all.
func TestDesignLeadsToChanges(t *testing.T) {
	t.Parallel()
	answers := changes(t, "CONTRIBUTING.md", "| change | files |")
	design := changes(t, "docs/design.md", "| change | where it goes |")
	require.Len(t, answers, 10)
	require.Len(t, design, 10)
	for change, row := range answers {
		leads, is := design[change]
		require.True(t, is, "docs/design.md has no row %q", change)
		for _, match := range quoted.FindAllStringSubmatch(row, -1) {
			name := match[1]
			if !pathName.MatchString(name) {
				continue
			}
			_, err := os.Stat(name)
			require.NoError(t, err, "CONTRIBUTING.md, %s", change)
			if !strings.Contains(leads, "`"+path.Dir(name)+"`: ") || !strings.Contains(leads, "`"+path.Base(name)+"`") {
				t.Errorf("docs/design.md does not lead to %s: %s", name, change)
			}
		}
	}
	for change, row := range design {
		for _, part := range regexp.MustCompile("`([\\w/-]+)`: ((?:[^`]|`[^`]*`(?:[^:]|$))*)").FindAllStringSubmatch(row, -1) {
			for _, match := range regexp.MustCompile("`([\\w-]+\\.[a-z]+)`").FindAllStringSubmatch(part[2], -1) {
				name := path.Join(part[1], match[1])
				if _, err := os.Stat(name); err != nil {
					t.Errorf("docs/design.md leads to %s, which is not there: %s", name, change)
				}
				require.Contains(t, answers[change], "`"+name+"`", "CONTRIBUTING.md does not name what docs/design.md leads to: %s", change)
			}
		}
	}
}

// changes returns the rows of a table of changes, by the change.
func changes(t *testing.T, file, head string) map[string]string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "\n"+head+"\n")
	require.True(t, ok, "%s has no table %s", file, head)
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]string{}
	for _, row := range strings.Split(table, "\n")[1:] {
		cells := strings.SplitN(row, "|", 3)
		rows[strings.Trim(cells[1], " *")] = cells[2]
	}
	return rows
}
