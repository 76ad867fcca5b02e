//go:build !windows

package nodelock

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLockSaysWhatIsInTheWay(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	_, err := New("a").Lock(t.Context(), func() {})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "lock "+filepath.Join(dir, "none", "a.lock")+": ")
}
