package dataplane

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who lets go and comes back at once is behind whoever waits.
func TestFairMutex(t *testing.T) {
	for range 1000 {
		var m fairMutex
		m.Lock()
		waited, done := false, make(chan struct{})
		go func() {
			defer close(done)
			m.Lock()
			waited = true
			m.Unlock()
		}()
		for m.front.TryLock() { // until it waits
			m.front.Unlock()
			runtime.Gosched()
		}
		m.Unlock()
		m.Lock()
		require.True(t, waited)
		m.Unlock()
		<-done
	}
}
