//go:build !linux

package hostile

import "time"

// processTime returns 0: CPU time is measured, and bounded, on Linux only.
func processTime() time.Duration { return 0 }
