//go:build !linux

package scale

import "time"

var began = time.Now()

// cpuTime returns the time that has passed, which stands in for CPU time.
func cpuTime() time.Duration { return time.Since(began) }
