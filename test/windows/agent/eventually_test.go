//go:build linux

package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// settle is how long a change may take until HNS has it, on a busy machine.
const settle = 30 * time.Second

// eventually calls missing until it returns nothing, and fails with its last
// answer when that takes longer than limit.
func eventually(t *testing.T, limit time.Duration, missing func() string) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		what := missing()
		if what == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			require.FailNow(t, fmt.Sprintf("not within %v", limit), what)
		}
	}
}
