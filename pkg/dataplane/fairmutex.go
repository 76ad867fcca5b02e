package dataplane

import "sync"

// fairMutex is a mutex that nobody takes again past somebody who waits for it: who
// waits holds the place in front. A walk takes it for a piece at a time, and so a
// transaction waits for one piece.
type fairMutex struct{ front, held sync.Mutex }

// Lock takes the mutex.
func (m *fairMutex) Lock() {
	m.front.Lock()
	m.held.Lock()
	m.front.Unlock()
}

// Unlock lets go of it.
func (m *fairMutex) Unlock() { m.held.Unlock() }
