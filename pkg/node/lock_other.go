//go:build !windows

package node

import "os"

// directory returns the folder of the lock files. Any user may write to it, which is acceptable
// because agents run only on Windows.
func directory() (string, error) { return os.TempDir(), nil }
