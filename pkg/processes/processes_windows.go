package processes

import (
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// open opens a process to ask what it is, which SYSTEM may of nearly all.
func open(pid uint32) (process windows.Handle, closed func(), err error) {
	process, err = windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	return process, func() { _ = windows.CloseHandle(process) }, err // it was only read
}

// Describe returns the Text of a process, with the name of its program if that
// can be found out.
func Describe(pid uint32) string { return Text(pid, nameOf(pid)) }

func nameOf(pid uint32) string {
	process, closed, err := open(pid)
	if err != nil {
		return ""
	}
	defer closed()
	path := make([]uint16, windows.MAX_LONG_PATH)
	size := uint32(len(path))
	if err := windows.QueryFullProcessImageName(process, 0, &path[0], &size); err != nil {
		return ""
	}
	return filepath.Base(windows.UTF16ToString(path[:size]))
}

// maxSIDBytes is SECURITY_MAX_SID_SIZE of winnt.h.
const maxSIDBytes = 68

// Trusted reports whether somebody is SYSTEM, the administrators, who this
// process runs as, or whom that has its objects belong to.
func Trusted(who *windows.SID) bool {
	if who.IsWellKnown(windows.WinLocalSystemSid) || who.IsWellKnown(windows.WinBuiltinAdministratorsSid) {
		return true
	}
	own := windows.GetCurrentProcessToken()
	user, err := own.GetTokenUser()
	if err == nil && who.Equals(user.User.Sid) {
		return true
	}
	var owner struct {
		sid  *windows.SID // in rest
		rest [maxSIDBytes]byte
	}
	size := uint32(unsafe.Sizeof(owner))
	err = windows.GetTokenInformation(own, windows.TokenOwner, (*byte)(unsafe.Pointer(&owner)), size, &size)
	return err == nil && who.Equals(owner.sid)
}

var getExtendedTCPTable = windows.NewLazySystemDLL("iphlpapi.dll").NewProc("GetExtendedTcpTable")

// tcpTableOwnerPIDListener is TCP_TABLE_OWNER_PID_LISTENER of iprtrmib.h.
const tcpTableOwnerPIDListener = 3

// tcpTable returns the listeners of an address family, AF_INET or AF_INET6, as Windows lays them out: their
// number, then rows of 32-bit words.
func tcpTable(af uint32) []uint32 {
	if getExtendedTCPTable.Find() != nil {
		return nil
	}
	size := uint32(16 << 10)
	for range 5 { // it may grow between two calls
		words := make([]uint32, (size+3)/4)
		code, _, _ := getExtendedTCPTable.Call(uintptr(unsafe.Pointer(&words[0])), uintptr(unsafe.Pointer(&size)), 0, uintptr(af), tcpTableOwnerPIDListener, 0)
		switch {
		case code == 0:
			return words
		case code != uintptr(windows.ERROR_INSUFFICIENT_BUFFER) || size > 16<<20:
			return nil
		}
	}
	return nil
}
