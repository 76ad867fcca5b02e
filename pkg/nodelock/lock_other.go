//go:build !windows

package nodelock

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

func (l *Lock) path() string { return filepath.Join(os.TempDir(), l.name+".lock") }

// acquire locks a file. It stays behind: removing it would let two processes
// hold two files of one name. Anybody may take it: agents are for Windows.
func (l *Lock) acquire(ctx context.Context, hears *waiter) (unlock func(), err error) {
	file := flock.New(l.path())
	for {
		held, err := file.TryLock()
		if err == nil && held {
			err = os.WriteFile(l.path(), note(), 0o600)
		}
		switch {
		case err != nil:
			_ = file.Close() // nothing is lost with it
			return nil, err
		case held:
			return func() { _ = file.Close() }, nil // the system would tell us only that it is no longer ours
		}
		hears.waits(l.holder())
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			_ = file.Close() // nothing is held
			return nil, ctx.Err()
		}
	}
}

func (l *Lock) holder() string {
	file, err := os.Open(l.path())
	if err != nil {
		return ""
	}
	defer file.Close()
	return holder(file)
}
