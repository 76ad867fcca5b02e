package nodelock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"
)

// access lets the system and administrators in. Without it the second agent
// could not even wait when it runs as somebody else than the first.
const access = "D:P(A;;GA;;;SY)(A;;GA;;;BA)"

func (l *Lock) path() string { return `Global\` + l.name } // of all sessions

// acquire takes a named mutex. That belongs to a thread, which is kept for it
// until unlock.
func (l *Lock) acquire(ctx context.Context, waiting func()) (unlock func(), err error) {
	mutex, err := l.open()
	if err != nil {
		return nil, err
	}
	acquired, free, freed := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(freed)
		defer func() { _ = windows.CloseHandle(mutex) }() // nothing is left to do with it
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := wait(ctx, mutex, waiting)
		acquired <- err
		if err == nil {
			<-free
			_ = windows.ReleaseMutex(mutex) // this thread holds it: no error is possible
		}
	}()
	if err := <-acquired; err != nil {
		<-freed
		return nil, err
	}
	return func() { close(free); <-freed }, nil
}

// open returns the mutex, which is made if it is not there.
func (l *Lock) open() (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(l.path())
	if err != nil {
		return 0, err
	}
	descriptor, err := windows.SecurityDescriptorFromString(access)
	if err != nil {
		return 0, err
	}
	attributes := windows.SecurityAttributes{SecurityDescriptor: descriptor}
	attributes.Length = uint32(unsafe.Sizeof(attributes))
	mutex, err := windows.CreateMutex(&attributes, false, name)
	if errors.Is(err, windows.ERROR_ALREADY_EXISTS) { // the handle is good
		err = nil
	}
	return mutex, err
}

// wait waits in slices, as the context cannot wake it up. A mutex that was
// abandoned is ours: its holder crashed, and what it left behind is read from
// HNS anyway.
func wait(ctx context.Context, mutex windows.Handle, waiting func()) error {
	for slice := uint32(0); ; slice = uint32(poll.Milliseconds()) {
		switch event, err := windows.WaitForSingleObject(mutex, slice); {
		case event == windows.WAIT_OBJECT_0 || event == windows.WAIT_ABANDONED:
			return nil
		case event != uint32(windows.WAIT_TIMEOUT):
			return fmt.Errorf("wait: %w", err)
		case slice == 0:
			waiting()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
