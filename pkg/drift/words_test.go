package drift

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

func TestSetInWords(t *testing.T) {
	for want, d := range map[string]ipsets.Drift{
		"gone":                       {Gone: true, Needed: true},
		"made by somebody else":      {Appeared: true, Added: 3},
		"of another type":            {Retyped: true, Missing: 2},
		"1 member missing":           {Missing: 1},
		"2 members missing":          {Missing: 2},
		"1 member added":             {Added: 1},
		"2 members missing, 1 added": {Missing: 2, Added: 1},
		"1 member missing, 12 added": {Missing: 1, Added: 12},
		"3 members missing, 3 added": {Missing: 3, Added: 3},
		"11 members added":           {Added: 11},
	} {
		require.Equal(t, want, setInWords(d))
	}
	require.Equal(t, "3 rules missing, 1 unknown", inWords("rule", 3, 1, "unknown"))
}
