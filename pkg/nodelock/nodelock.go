// Package nodelock lets one process of a computer work at a time: two agents
// that write to the same HNS would undo each other's work. The system frees the
// lock of a process that ends, however it ends.
package nodelock

import (
	"context"
	"fmt"
	"time"
)

// Lock is a lock that all processes of the computer share.
type Lock struct {
	name string
}

// New returns the lock of that name. It does no I/O. The name is part of a file
// name, so it holds no separators.
func New(name string) *Lock { return &Lock{name: name} }

// poll is the time between two looks at a lock that somebody else holds.
const poll = 200 * time.Millisecond

// Lock waits until the lock is ours. When somebody else holds it, waiting is
// called once and before the wait. The caller calls unlock once; a process that
// ends need not. The error is the context's cause or what the system said.
func (l *Lock) Lock(ctx context.Context, waiting func()) (unlock func(), err error) {
	unlock, err = l.acquire(ctx, waiting)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", l.path(), err)
	}
	return unlock, nil
}
