package node

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is the time between two attempts to take the lock.
const lockPoll = 200 * time.Millisecond

// Lock waits until this process holds the lock called name, which one process of a computer can hold at a
// time: two agents that write to the same HNS would undo each other's work. The operating system frees
// the lock when the process ends or crashes. On Windows only SYSTEM and administrators can take it (ADR 15).
// The name becomes part of a file name, so it must not contain path separators. If another process holds the lock, Lock calls waiting
// once. The caller must call unlock once, or end the
// process. The error is the cause of ctx or an error of the file system.
func Lock(ctx context.Context, name string, waiting func()) (unlock func(), err error) {
	dir, err := directory()
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	// The file is never removed: otherwise one process could lock a removed file, and another
	// process a new file of the same name.
	path := filepath.Join(dir, name+".lock")
	file := flock.New(path)
	held, err := file.TryLock()
	if err == nil && !held {
		waiting()
		_, err = file.TryLockContext(ctx, lockPoll)
	}
	switch {
	case ctx.Err() != nil:
		_ = file.Close() // also gives up a lock that was taken just now
		return nil, context.Cause(ctx)
	case err != nil:
		_ = file.Close() // nothing is held
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}
