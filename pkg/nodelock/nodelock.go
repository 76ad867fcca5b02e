// Package nodelock provides a lock that one process of a computer can hold at a time: two agents
// that write to the same HNS would undo each other's work. The operating system frees the lock when
// the process ends or crashes. On Windows only SYSTEM and administrators can take it (ADR 15).
package nodelock

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Lock is a lock that all processes of the computer share.
type Lock struct {
	name string
}

// New returns the lock with a name. It does no I/O. The name becomes part of a file name, so it
// must not contain path separators.
func New(name string) *Lock { return &Lock{name: name} }

// poll is the time between two attempts to take the lock.
const poll = 200 * time.Millisecond

// Lock waits until this process holds the lock. If another process holds it, Lock calls waiting
// with the process id of the holder, or 0 if that is unknown, and calls it again whenever the id
// becomes known or changes. The caller must call unlock once, or end the process. The error is the
// cause of ctx or an error of the file system.
func (l *Lock) Lock(ctx context.Context, waiting func(pid int)) (unlock func(), err error) {
	dir, err := directory()
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", l.name, err)
	}
	// The file is never removed: otherwise one process could lock a removed file, and another
	// process a new file of the same name.
	path := filepath.Join(dir, l.name+".lock")
	file := flock.New(path)
	for told, last := false, 0; ; told = true {
		held, err := file.TryLock()
		if err != nil {
			_ = file.Close() // nothing is held
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if held {
			// Windows lets no other process read a locked file, so the process id is in a second file.
			_ = os.WriteFile(pidFile(path), []byte(strconv.Itoa(os.Getpid())), 0o600) // on an error, a waiting process cannot show the id
			return func() { _ = file.Close() }, nil
		}
		if pid := readPID(path); !told || pid != last && pid != 0 {
			last = pid
			waiting(pid)
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			_ = file.Close() // nothing is held
			return nil, context.Cause(ctx)
		}
	}
}

func pidFile(lock string) string { return strings.TrimSuffix(lock, ".lock") + ".pid" }

// readPID returns the process id that the last holder of a lock wrote, or 0 if that cannot be read.
func readPID(lock string) int {
	text, err := os.ReadFile(pidFile(lock))
	if err != nil || len(text) > 10 {
		return 0
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
