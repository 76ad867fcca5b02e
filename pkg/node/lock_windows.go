package node

import (
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// lockAccess is a security descriptor that gives only SYSTEM and administrators access to a folder and
// the files in it. A user who can open a lock file can lock it.
const lockAccess = "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"

// directory returns the folder of the lock files, and creates it if necessary. Its parent is the
// Windows folder, where only administrators can create folders.
func directory() (string, error) {
	parent, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return "", fmt.Errorf("find the Windows folder: %w", err)
	}
	dir := filepath.Join(parent, "WinNPM")
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return "", err
	}
	descriptor, err := windows.SecurityDescriptorFromString(lockAccess)
	if err != nil {
		return "", err
	}
	attributes := &windows.SecurityAttributes{SecurityDescriptor: descriptor}
	attributes.Length = uint32(unsafe.Sizeof(*attributes))
	if err := windows.CreateDirectory(name, attributes); err != nil && !errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		return "", fmt.Errorf("create %s: %w", dir, err)
	}
	return dir, nil
}
