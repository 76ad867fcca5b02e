package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCount(t *testing.T) {
	const text = `=== RUN   TestConformance
--- FAIL: TestConformance (1.00s)
    --- PASS: TestConformance/A (0.50s)
        --- PASS: TestConformance/A/one/other (0.10s)
        --- PASS: TestConformance/A/two (0.10s)
    --- FAIL: TestConformance/B (0.50s)
        --- FAIL: TestConformance/B/one (0.10s)
        --- PASS: TestConformance/B/two (0.10s)
    --- SKIP: TestConformance/C (0.50s)
    said: --- PASS: TestConformance/D (0.50s)
--- PASS: TestHarness (1.00s)
    --- PASS: TestHarness/A (0.50s)
FAIL`
	var out strings.Builder
	got, err := count(strings.NewReader(text), &out, "TestConformance")
	require.NoError(t, err)
	require.Equal(t, tally{tests: 1, subtests: 3}, got)
	require.Equal(t, text, out.String())
}
