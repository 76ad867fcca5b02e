package hostile

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time that the process has used on all cores: what others
// took meanwhile is not in it.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic("BUG: the kernel always knows: " + err.Error())
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
