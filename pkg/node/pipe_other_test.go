//go:build !windows

package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func somewhere(t *testing.T) string { return filepath.Join(t.TempDir(), "s") }

func TestPipeSocketIsForItsOwner(t *testing.T) {
	path := somewhere(t)
	l, err := ListenPipe(path)
	require.NoError(t, err)
	defer l.Close()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}
