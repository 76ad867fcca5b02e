package hnstest

import (
	"fmt"
	"regexp"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"
)

// ThisHNS returns the HNS of this system.
func ThisHNS() HNS { return call }

// call makes one call of any export of computenetwork.dll. Microsoft's HCN API reference documents the
// arguments: a handle, a GUID, texts, and pointers for a handle, an output and an error record.
func call(export, id string, handle uint64, texts ...string) (CallAnswer, error) {
	proc := windows.NewLazySystemDLL("computenetwork.dll").NewProc(export)
	if err := proc.Find(); err != nil {
		return CallAnswer{}, err
	}
	verb := func(names string) bool { return regexp.MustCompile("^Hcn(" + names + ")").MatchString(export) }
	var pins runtime.Pinner // HNS does not keep our pointers after the call
	defer pins.Unpin()
	at := &struct {
		id             windows.GUID
		handle         uintptr
		output, record *uint16
	}{}
	pins.Pin(at)
	var args []uintptr
	if verb("Query|Modify|Close|CreateEndpoint") {
		args = append(args, uintptr(handle))
	}
	if verb("Open|Create|Delete") {
		var err error
		if at.id, err = windows.GUIDFromString("{" + id + "}"); err != nil {
			return CallAnswer{}, fmt.Errorf("%q is no GUID: %w", id, err)
		}
		args = append(args, uintptr(unsafe.Pointer(&at.id)))
	}
	for _, text := range texts {
		encoded, err := windows.UTF16PtrFromString(text)
		if err != nil {
			return CallAnswer{}, err
		}
		pins.Pin(encoded)
		args = append(args, uintptr(unsafe.Pointer(encoded)))
	}
	if verb("Open|Create") {
		args = append(args, uintptr(unsafe.Pointer(&at.handle)))
	}
	if verb("Enumerate|Query") {
		args = append(args, uintptr(unsafe.Pointer(&at.output)))
	}
	if !verb("Close") {
		args = append(args, uintptr(unsafe.Pointer(&at.record)))
	}
	code, _, _ := proc.Call(args...)
	a := CallAnswer{Code: uint32(code), Record: take(at.record)}
	if int32(code) >= 0 { // after a failed call the outputs are undefined
		a.Output, a.Handle = take(at.output), uint64(at.handle)
	}
	return a, nil
}

// take returns a text of HNS and frees it.
func take(text *uint16) string {
	if text == nil {
		return ""
	}
	defer windows.CoTaskMemFree(unsafe.Pointer(text))
	return windows.UTF16PtrToString(text)
}
