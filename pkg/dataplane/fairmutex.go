package dataplane

import "sync"

// turns is a mutex that nobody takes again past somebody who waits for it: who
// waits holds the place in front. A walk takes it for a piece at a time, and so a
// transaction waits for one piece.
type turns struct{ front, held sync.Mutex }

// Lock takes the mutex.
func (m *turns) Lock() {
	m.front.Lock()
	m.held.Lock()
	m.front.Unlock()
}

// Unlock lets go of it.
func (m *turns) Unlock() { m.held.Unlock() }
