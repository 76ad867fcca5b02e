//go:build !linux

package hostile

import "time"

// cpuTime knows nothing here: the bounds of CPU time are for Linux.
func cpuTime() time.Duration { return 0 }
