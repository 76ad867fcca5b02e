// Package nodelock lets one process of a computer work at a time: two agents that write to the
// same HNS would undo each other's work. The system frees the lock of a process that ends,
// however it ends. On Windows only the system and administrators can take it (ADR 15).
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

// New returns the lock of that name. It does no I/O. The name is part of a file name, so it
// must hold no separators.
func New(name string) *Lock { return &Lock{name: name} }

// poll is the time between two attempts to take the lock.
const poll = 200 * time.Millisecond

// Lock waits until this process holds the lock. It calls waiting while another process holds
// it: once, and again when the process id of the holder becomes known or changes; pid is 0
// when it is not known. The caller calls unlock once; a process that ends need not. The error
// is the context's cause or that of the file system.
func (l *Lock) Lock(ctx context.Context, waiting func(pid int)) (unlock func(), err error) {
	dir, err := directory()
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", l.name, err)
	}
	// The file stays when the lock is free: two processes could hold two files of one name.
	path := filepath.Join(dir, l.name+".lock")
	file := flock.New(path)
	for told, last := false, 0; ; told = true {
		held, err := file.TryLock()
		if err != nil {
			_ = file.Close() // nothing is held
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if held {
			// Windows lets no other process read a locked file, so the holder's id has its own.
			_ = os.WriteFile(pidFile(path), []byte(strconv.Itoa(os.Getpid())), 0o600) // only the message to others lacks it
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

// readPID returns the process id that the last holder of a lock wrote, 0 if there is none.
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
