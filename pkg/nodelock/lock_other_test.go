//go:build !windows

package nodelock

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// takeOlder takes what older versions lock: here that is the same file.
func takeOlder(name string) func(context.Context, Listener) (func(), error) { return New(name).Lock }

func TestLockSaysWhatIsInTheWay(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	_, err := New("a").Lock(t.Context(), Listener{})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "lock "+filepath.Join(dir, "none", "a.lock")+": ")
}
