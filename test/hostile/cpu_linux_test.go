package hostile

import (
	"syscall"
	"time"
)

// processTime returns the CPU time that this process has used on all cores. What other
// processes take meanwhile is not in it.
func processTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic("BUG: the kernel always knows: " + err.Error())
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
