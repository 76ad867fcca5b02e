//go:build !windows

package nodelock

import "os"

// directory returns the folder of the lock files. Any user may write to it: agents run on Windows.
func directory() (string, error) { return os.TempDir(), nil }
