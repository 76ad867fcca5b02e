package servers

import (
	"testing"
	"time"
)

// Eventually calls missing until it returns "". After limit it fails the test with the last result.
func Eventually(t *testing.T, limit time.Duration, missing func() string) {
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
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
