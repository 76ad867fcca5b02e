package controllers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	gate "github.com/winnpm/winnpm/pkg/node"
)

// goesAt is a context whose Done runs something once, the nth time.
type goesAt struct {
	context.Context
	n    *int
	then func()
}

func (c goesAt) Done() <-chan struct{} {
	if *c.n--; *c.n == 0 {
		c.then()
	}
	return c.Context.Done()
}

// TestClaimOfAPodThatGoes: a pod that goes between the look for it and its claim leaves no
// claim: no event of it comes any more that would end it.
func TestClaimOfAPodThatGoes(t *testing.T) {
	runClaims(t, newCluster(), func(n claiming) {
		n.cluster.pods.set(scheduled("a"))
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(n.t.Context(), time.Second, gate.ErrLate)
		defer cancel()
		nth := 2 // the first is in awaitPod, the next is after it
		err := n.Claim(goesAt{ctx, &nth, func() { n.cluster.pods.remove(scheduled("a")); synctest.Wait() }}, claimOf("a", "s1", "10.0.0.1"))
		require.ErrorIs(n.t, err, errReplaced)
		time.Sleep(time.Minute)
		require.Empty(n.t, n.claims.told)
	})
}
