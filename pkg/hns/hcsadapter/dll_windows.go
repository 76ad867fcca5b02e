package hcsadapter

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// New returns a client and starts its worker, which Close ends. The client is for the named
// network, or for the networks of this node's pods if none is named. The network need not exist
// yet. ErrMissing: this system has no usable HNS.
func New(o Options) (Client, error) {
	l, err := loadDLLs()
	switch {
	case err != nil:
		return nil, err
	case o.Network == "":
		return newFound(o, l), nil
	}
	return newAdapter(o, l), nil
}

// dlls maps the names of the exports of HNS, and of the export that frees their texts, to their
// addresses.
type dlls map[string]uintptr

func loadDLLs() (dlls, error) {
	var names []string
	for _, k := range []kind{kindNetwork, kindEndpoint} {
		for _, export := range []string{"HcnEnumerate%ss", "HcnOpen%s", "HcnQuery%sProperties", "HcnModify%s", "HcnClose%s"} {
			names = append(names, fmt.Sprintf(export, k))
		}
	}
	l := dlls{}
	if err := l.find("computenetwork.dll", names...); err != nil {
		return nil, err
	}
	return l, l.find("ole32.dll", free)
}

// free is the export that frees a text.
const free = "CoTaskMemFree"

// find adds the addresses of exports of a DLL. It loads the DLL from the system folder only.
func (l dlls) find(dll string, names ...string) error {
	library := windows.NewLazySystemDLL(dll)
	if err := library.Load(); err != nil {
		return fmt.Errorf("%w: load %s: %w", ErrMissing, dll, err)
	}
	for _, name := range names {
		export := library.NewProc(name)
		if err := export.Find(); err != nil {
			return fmt.Errorf("%w: %w", ErrMissing, err)
		}
		l[name] = export.Addr()
	}
	return nil
}

// invoke calls an export. go:uintptrescapes keeps the objects that the arguments point to on the
// heap during the call, where they do not move.
//
//go:uintptrescapes
func invoke(export uintptr, args ...uintptr) (hr uintptr) {
	hr, _, _ = syscall.SyscallN(export, args...)
	return hr
}

func (l dlls) enumerate(k kind, query string) (string, error) {
	export := "HcnEnumerate" + string(k) + "s"
	text, err := windows.UTF16PtrFromString(query)
	if err != nil {
		return "", err
	}
	var ids, record *uint16
	hr := invoke(l[export], uintptr(unsafe.Pointer(text)),
		uintptr(unsafe.Pointer(&ids)), uintptr(unsafe.Pointer(&record)))
	return l.output(export, hr, ids, record)
}

func (l dlls) open(k kind, id string) (handle, error) {
	export := "HcnOpen" + string(k)
	guid, err := windows.GUIDFromString("{" + id + "}")
	if err != nil {
		return 0, fmt.Errorf("%q is no GUID: %w", id, err)
	}
	var h handle
	var record *uint16
	hr := invoke(l[export], uintptr(unsafe.Pointer(&guid)),
		uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(&record)))
	if failed(hr) {
		h = 0 // the value is undefined after a failed call
	}
	return h, l.answer(export, hr, record)
}

func (l dlls) query(k kind, h handle, query string) (string, error) {
	export := "HcnQuery" + string(k) + "Properties"
	text, err := windows.UTF16PtrFromString(query)
	if err != nil {
		return "", err
	}
	var properties, record *uint16
	hr := invoke(l[export], uintptr(h), uintptr(unsafe.Pointer(text)),
		uintptr(unsafe.Pointer(&properties)), uintptr(unsafe.Pointer(&record)))
	return l.output(export, hr, properties, record)
}

func (l dlls) modify(k kind, h handle, request string) error {
	export := "HcnModify" + string(k)
	text, err := windows.UTF16PtrFromString(request)
	if err != nil {
		return err
	}
	var record *uint16
	hr := invoke(l[export], uintptr(h), uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(&record)))
	return l.answer(export, hr, record)
}

func (l dlls) close(k kind, h handle) error {
	export := "HcnClose" + string(k)
	return l.answer(export, invoke(l[export], uintptr(h)), nil)
}

// output returns the text that a call returned, or the error of the call.
func (l dlls) output(export string, hr uintptr, out, record *uint16) (string, error) {
	var text string
	if !failed(hr) { // the pointer is undefined after a failed call
		text = l.take(out)
	}
	switch err := l.answer(export, hr, record); {
	case err != nil:
		return "", err
	case out == nil:
		return "", errors.New(export + ": success without an answer")
	}
	return text, nil
}

// answer returns the error of a call: a failure, or an error record in spite of success.
func (l dlls) answer(export string, hr uintptr, record *uint16) error {
	said := l.take(record)
	switch {
	case failed(hr):
		// Windows has messages for whole HRESULTs, and for the error number in its own HRESULTs.
		number := uint32(hr)
		if number>>16 == 0x8007 {
			number &= 0xffff
		}
		err := fmt.Errorf("%s: %w", export, syscall.Errno(number))
		if said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return &failure{code: uint32(hr), err: err}
	case said != "":
		return &failure{err: fmt.Errorf("%s: success with an error record: %s", export, said)}
	}
	return nil
}

func failed(hr uintptr) bool { return int32(hr) < 0 }

// take returns a text of HNS and frees it. It returns "" for NULL.
func (l dlls) take(text *uint16) string {
	if text == nil {
		return ""
	}
	defer invoke(l[free], uintptr(unsafe.Pointer(text)))
	return windows.UTF16PtrToString(text)
}
