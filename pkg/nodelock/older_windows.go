package nodelock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/winnpm/winnpm/pkg/processes"
)

// older is the lock of versions before ADR 15: a mutex by a name, which any
// process may make first and hold. It is waited for only while somebody holds it
// who has the rights of an agent, and held from then on, so that an older
// version that comes later waits for us.
type older struct {
	name string
}

func (o older) path() string { return `Global\` + o.name } // of all sessions

// lock returns what gives the mutex back. The error is that of ctx.
func (o older) lock(ctx context.Context, hears *waiter) (free func(), err error) {
	mutex, err := o.open()
	if err != nil {
		// An older agent's can be opened, so this is none, whatever it is.
		hears.Ignored(fmt.Sprintf("somebody: %v", err))
		return func() {}, nil
	}
	// A mutex belongs to a thread, which is kept for it.
	done, stop, stopped := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		defer func() { _ = windows.CloseHandle(mutex) }() // nothing is left to do with it
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		ours, err := o.wait(ctx, mutex, hears)
		done <- err
		if err != nil {
			return
		}
		<-stop
		if ours {
			_ = windows.ReleaseMutex(mutex) // this thread holds it: no error is possible
		}
	}()
	if err := <-done; err != nil {
		<-stopped
		return nil, err
	}
	return func() { close(stop); <-stopped }, nil
}

// open returns the mutex, which is made if it is not there.
func (o older) open() (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(o.path())
	if err != nil {
		return 0, err
	}
	attributes, err := only(mutexAccess)
	if err != nil {
		return 0, err
	}
	mutex, err := windows.CreateMutex(attributes, false, name)
	if errors.Is(err, windows.ERROR_ALREADY_EXISTS) { // the handle is good
		err = nil
	}
	return mutex, err
}

// wait waits in slices, as the context cannot wake it up, and reports whether
// the mutex is ours. One that was abandoned is: its holder crashed, and what it
// left behind is read from HNS anyway.
func (o older) wait(ctx context.Context, mutex windows.Handle, hears *waiter) (ours bool, err error) {
	for slice := uint32(0); ; slice = uint32(poll.Milliseconds()) {
		switch event, err := windows.WaitForSingleObject(mutex, slice); event {
		case windows.WAIT_OBJECT_0, windows.WAIT_ABANDONED:
			return true, nil
		case uint32(windows.WAIT_TIMEOUT):
		default:
			hears.Ignored(fmt.Sprintf("somebody: %v", err))
			return false, nil
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		switch by, agent := o.holder(mutex); {
		case !agent:
			hears.Ignored(by)
			return false, nil
		case by != "":
			hears.waits(by)
		}
	}
}

// holder says who holds a mutex, and whether it may be an agent: a process with
// the rights of one. Where the system does not tell which process it is, the
// mutex must be one that only such a process can have made, as agents do. by is ""
// when nobody holds it any more.
func (o older) holder(mutex windows.Handle) (by string, agent bool) {
	pid, err := holderOf(mutex)
	if err == nil && pid == 0 {
		return "", true
	}
	if err == nil {
		if may, err := processes.MayAll(pid); err == nil {
			return processes.Describe(pid), may
		}
		by = processes.Describe(pid)
	} else {
		by = "a process that Windows does not name"
	}
	descriptor, err := windows.GetSecurityInfo(mutex, windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return by, false
	}
	owner, _, err := descriptor.Owner()
	return by, err == nil && owner != nil && processes.Trusted(owner)
}

var queryMutant = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtQueryMutant")

// mutantOwnerInformation is a class of NtQueryMutant, which answers with the ids
// of the process and the thread that hold the mutex. Windows has it since Vista
// and documents it nowhere; where it is not as we think, wait goes by the owner.
const mutantOwnerInformation = 1

// holderOf returns the process that holds a mutex, 0 when none does.
func holderOf(mutex windows.Handle) (pid uint32, err error) {
	if err := queryMutant.Find(); err != nil {
		return 0, err
	}
	var ids struct{ process, thread uintptr }
	status, _, _ := queryMutant.Call(uintptr(mutex), mutantOwnerInformation, uintptr(unsafe.Pointer(&ids)), unsafe.Sizeof(ids), 0)
	if status != 0 {
		return 0, windows.NTStatus(status)
	}
	return uint32(ids.process), nil
}
