package nodelock

import (
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// access lets the system and administrators use a folder and the files in it, and no other
// user: a user who can open a lock file can lock it.
const access = "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"

// directory returns the folder of the lock files, and creates it if necessary. It is in the
// folder of Windows, where only administrators can create one.
func directory() (string, error) {
	parent, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return "", fmt.Errorf("find the folder of Windows: %w", err)
	}
	dir := filepath.Join(parent, "WinNPM")
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return "", err
	}
	descriptor, err := windows.SecurityDescriptorFromString(access)
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
