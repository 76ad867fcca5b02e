//go:build linux

package agent

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every request that the adapter sends is what hcsshim's types encode, but for
// the differences that a table lists.
func TestWireAgainstHcsshim(t *testing.T) {
	begin(t)
	out, passed := runTests(t, newHost(t, azure()), "adapter", "-test.run=^TestWire(Requests|Queries)$")
	require.Greater(t, passed, 2, "%s", out)
	summary := regexp.MustCompile(`\d+ requests are hcsshim's byte for byte, .*`).FindString(out)
	require.NotEmpty(t, summary)
	t.Log(summary)
}
