package sockets

import (
	"fmt"

	"golang.org/x/sys/windows"
)

var (
	iphlpapi = windows.NewLazySystemDLL("iphlpapi.dll")
	set      = iphlpapi.NewProc("SetCurrentThreadCompartmentId")
	get      = iphlpapi.NewProc("GetCurrentThreadCompartmentId")
)

// Compartments enters compartments of this system, each of them one network namespace of HNS.
func Compartments(compartment uint32) (back func() error, err error) {
	for _, proc := range []*windows.LazyProc{set, get} {
		if err := proc.Find(); err != nil {
			return nil, err
		}
	}
	before, _, _ := get.Call()
	if err := move(uintptr(compartment)); err != nil {
		return nil, err
	}
	return func() error { return move(before) }, nil
}

// move puts the thread into a compartment; the result is a code of Windows.
func move(compartment uintptr) error {
	if code, _, _ := set.Call(compartment); code != 0 {
		return fmt.Errorf("SetCurrentThreadCompartmentId: %w", windows.Errno(code))
	}
	return nil
}

// What sockets say when somebody answers that there is nobody, and when there is no way.
var (
	saysNo  = []error{windows.WSAECONNREFUSED, windows.WSAECONNRESET, windows.WSAECONNABORTED}
	nowhere = []error{windows.WSAENETUNREACH, windows.WSAEHOSTUNREACH, windows.WSAETIMEDOUT}
)
