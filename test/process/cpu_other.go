//go:build !linux

package process

import "time"

// CPU returns 0: CPU time is measured, and bounded, on Linux only.
func CPU() time.Duration { return 0 }
