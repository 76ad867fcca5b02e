package nodelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// These let the system and administrators in, and nobody else: who may read a
// file may lock it.
const (
	fileAccess  = "D:P(A;;FA;;;SY)(A;;FA;;;BA)"
	mutexAccess = "D:P(A;;GA;;;SY)(A;;GA;;;BA)"
)

// path is in the folder of Windows, where only they may make files.
func (l *Lock) path() string {
	dir, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		dir = `C:\Windows`
	}
	return filepath.Join(dir, l.name+".lock")
}

// acquire locks a file, and keeps out those who know only the older lock. The
// file stays behind: removing it would let two processes hold two files of one
// name.
func (l *Lock) acquire(ctx context.Context, hears *waiter) (unlock func(), err error) {
	file, err := l.lockFile(ctx, hears)
	if err != nil {
		return nil, err
	}
	release := func() { _ = file.Close() } // nothing is left to do with it
	if err := keepForUs(file); err != nil {
		release()
		return nil, err
	}
	if _, err := file.WriteAt(note(), 0); err != nil {
		release()
		return nil, err
	}
	free, err := older{l.name}.lock(ctx, hears)
	if err != nil {
		release()
		return nil, err
	}
	return func() { free(); release() }, nil
}

// lockFile waits until the file is ours.
func (l *Lock) lockFile(ctx context.Context, hears *waiter) (*os.File, error) {
	for {
		file, err := l.tryFile(hears)
		if file != nil || err != nil {
			return file, err
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryFile returns the file when it is ours, nil while it is somebody else's.
func (l *Lock) tryFile(hears *waiter) (*os.File, error) {
	file, err := l.open()
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) { // who opened it so has the rights to
		hears.waits("")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// Far behind the note: what is locked nobody else can read.
	at := windows.Overlapped{OffsetHigh: 1}
	err = windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if err == nil {
		return file, nil
	}
	defer file.Close()
	if !errors.Is(err, windows.ERROR_LOCK_VIOLATION) && !errors.Is(err, windows.ERROR_IO_PENDING) {
		return nil, fmt.Errorf("lock: %w", err)
	}
	hears.waits(holder(file))
	return nil, nil
}

// open opens the file, which is made if it is not there. Nobody may remove or
// rename it while it is open.
func (l *Lock) open() (*os.File, error) {
	path := l.path()
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	attributes, err := only(fileAccess)
	if err != nil {
		return nil, err
	}
	handle, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE|windows.WRITE_DAC, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE,
		attributes, windows.OPEN_ALWAYS, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return os.NewFile(uintptr(handle), path), nil
}

// keepForUs shuts others out of a file that somebody made with other rights.
func keepForUs(file *os.File) error {
	descriptor, err := windows.SecurityDescriptorFromString(fileAccess)
	if err != nil {
		return err
	}
	list, _, err := descriptor.DACL()
	if err != nil {
		return err
	}
	err = windows.SetSecurityInfo(windows.Handle(file.Fd()), windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, list, nil)
	if err != nil {
		return fmt.Errorf("shut others out: %w", err)
	}
	return nil
}

// only is for a new object with such a list.
func only(access string) (*windows.SecurityAttributes, error) {
	descriptor, err := windows.SecurityDescriptorFromString(access)
	if err != nil {
		return nil, err
	}
	attributes := &windows.SecurityAttributes{SecurityDescriptor: descriptor}
	attributes.Length = uint32(unsafe.Sizeof(*attributes))
	return attributes, nil
}
