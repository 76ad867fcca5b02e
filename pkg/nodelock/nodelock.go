// Package nodelock lets one process of a computer work at a time: two agents
// that write to the same HNS would undo each other's work. The system frees the
// lock of a process that ends, however it ends. On Windows only who has the
// rights of an administrator can take it (ADR 15).
package nodelock

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/processes"
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

// Listener hears what happens while Lock waits. Both are called from Lock.
type Listener struct {
	// Waiting: another process holds the lock. holder says which, "" when that is
	// not known. It is called again when it becomes known, or is another one.
	Waiting func(holder string)
	// Ignored: the name that older versions lock is somebody's whose rights are
	// not those of an agent. Nobody waits for that.
	Ignored func(by string)
}

// waiter calls Waiting when it has something new to say.
type waiter struct {
	Listener
	told bool
	last string
}

func (w *waiter) waits(holder string) {
	if !w.told || holder != w.last && holder != "" {
		w.told, w.last = true, holder
		w.Waiting(holder)
	}
}

// Lock waits until the lock is ours. The caller calls unlock once; a process that
// ends need not. The error is the context's cause or what the system said.
func (l *Lock) Lock(ctx context.Context, hears Listener) (unlock func(), err error) {
	unlock, err = l.acquire(ctx, &waiter{Listener: hears})
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", l.path(), err)
	}
	return unlock, nil
}

// noteBytes is how long the note is that a holder leaves in the file.
const noteBytes = 128

// note says who this process is, for those who wait.
func note() []byte {
	text := make([]byte, noteBytes)
	program, _ := os.Executable() // the number does as well
	line := fmt.Sprintf("%d %s", os.Getpid(), filepath.Base(program))
	copy(text, line[:min(len(line), noteBytes-1)])
	return text
}

// holder reads a note: who holds the lock, or held it last and has not been
// followed yet; "" when it does not say.
func holder(file io.ReaderAt) string {
	text := make([]byte, noteBytes)
	n, _ := file.ReadAt(text, 0) // less is no note
	number, name, _ := strings.Cut(strings.TrimRight(string(text[:n]), "\x00"), " ")
	pid, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return ""
	}
	return processes.Text(uint32(pid), name)
}
