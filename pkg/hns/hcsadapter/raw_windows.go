package hcsadapter

import (
	"cmp"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// NewRaw returns single calls of this system's HNS, and starts their worker, which Close ends.
// deadline is that of a call; 0: 2 minutes. ErrMissing: this system has no usable HNS.
func NewRaw(deadline time.Duration) (*Raw, error) {
	l, err := loadDLLs()
	if err != nil {
		return nil, err
	}
	return &Raw{do: l.raw, worker: newWorker(cmp.Or(deadline, defaultDeadline))}, nil
}

// raw makes one call of any export.
func (l *dlls) raw(export string, a Arguments) (Outcome, error) {
	dll, takes, ok := shapeOf(export)
	if !ok {
		return Outcome{}, fmt.Errorf("%s is no call of HNS", export)
	}
	var address uintptr
	if err := find(dll, map[string]*uintptr{export: &address}); err != nil {
		return Outcome{}, err
	}
	if len(a.Texts) != takes.texts {
		return Outcome{}, fmt.Errorf("%s takes %d texts, not %d", export, takes.texts, len(a.Texts))
	}
	// HNS has no pointer of ours after the call.
	var pins runtime.Pinner
	defer pins.Unpin()
	var args []uintptr
	point := func(to unsafe.Pointer) { args = append(args, uintptr(to)) }
	if takes.handle {
		args = append(args, uintptr(a.Handle))
	}
	if takes.id {
		guid, err := windows.GUIDFromString("{" + a.ID + "}")
		if err != nil {
			return Outcome{}, fmt.Errorf("%q is no GUID: %w", a.ID, err)
		}
		id := &guid
		pins.Pin(id)
		point(unsafe.Pointer(id))
	}
	for _, text := range a.Texts {
		encoded, err := windows.UTF16PtrFromString(text)
		if err != nil {
			return Outcome{}, err
		}
		pins.Pin(encoded)
		point(unsafe.Pointer(encoded))
	}
	var answer struct {
		handle         uintptr
		output, record *uint16
	}
	out := &answer
	pins.Pin(out)
	if takes.opens {
		point(unsafe.Pointer(&out.handle))
	}
	if takes.output {
		point(unsafe.Pointer(&out.output))
	}
	if takes.rc {
		point(unsafe.Pointer(&out.record))
	}
	hr := invoke(address, args...)
	said := Outcome{HResult: uint32(hr), Record: l.take(out.record)}
	if !failed(hr) { // what a failing call leaves elsewhere is nobody's
		said.Output, said.Handle = l.take(out.output), uint64(out.handle)
	}
	return said, nil
}
