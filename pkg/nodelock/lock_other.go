//go:build !windows

package nodelock

import (
	"context"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

func (l *Lock) path() string { return filepath.Join(os.TempDir(), l.name+".lock") }

// acquire locks a file. It stays behind: removing it would let two processes
// hold two files of one name.
func (l *Lock) acquire(ctx context.Context, waiting func()) (unlock func(), err error) {
	file := flock.New(l.path())
	held, err := file.TryLock()
	if err == nil && !held {
		waiting()
		_, err = file.TryLockContext(ctx, poll)
	}
	if err != nil {
		_ = file.Close() // nothing is held
		return nil, err
	}
	return func() { _ = file.Close() }, nil // the system would tell us only that it is no longer ours
}
