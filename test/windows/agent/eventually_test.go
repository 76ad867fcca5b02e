//go:build linux

package agent

import (
	"fmt"
	"slices"
	"strings"
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

// always calls wrong for as long as d takes, and fails with its first answer.
func always(t *testing.T, d time.Duration, wrong func() string) {
	t.Helper()
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if what := wrong(); what != "" {
			require.FailNow(t, fmt.Sprintf("not for all of %v", d), what)
		}
		select {
		case <-tick.C:
		case <-end.C:
			return
		}
	}
}

// difference names what is only in one of two lists; it is empty when they are
// equal.
func difference(want, have []string) string {
	var text strings.Builder
	for _, line := range want {
		if !slices.Contains(have, line) {
			fmt.Fprintf(&text, "wanted: %s\n", line)
		}
	}
	for _, line := range have {
		if !slices.Contains(want, line) {
			fmt.Fprintf(&text, "got:    %s\n", line)
		}
	}
	if text.Len() == 0 && len(want) != len(have) {
		return fmt.Sprintf("wanted %d lines, got %d", len(want), len(have))
	}
	return text.String()
}
