package main

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
)

// newHNS connects to the Host Networking Service of this system.
func newHNS(o hcsadapter.Options) (service, error) {
	a, err := hcsadapter.New(o)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// hnsPID asks the service manager.
func hnsPID() (uint32, error) { return servicePID("hns") }

// servicePID returns the process id of a service, 0 when it does not run or is
// not there: that HNS is missing is not ours to say. It needs no right that a
// plain user has not.
func servicePID(service string) (uint32, error) {
	manager, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
	if err != nil {
		return 0, fmt.Errorf("service manager: %w", err)
	}
	defer func() { _ = windows.CloseServiceHandle(manager) }() // it was only read
	name, err := windows.UTF16PtrFromString(service)
	if err != nil {
		return 0, err
	}
	handle, err := windows.OpenService(manager, name, windows.SERVICE_QUERY_STATUS)
	switch {
	case errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("service %s: %w", service, err)
	}
	defer func() { _ = windows.CloseServiceHandle(handle) }() // it was only read
	var status windows.SERVICE_STATUS_PROCESS
	var needed uint32
	err = windows.QueryServiceStatusEx(handle, windows.SC_STATUS_PROCESS_INFO, (*byte)(unsafe.Pointer(&status)), uint32(unsafe.Sizeof(status)), &needed)
	if err != nil {
		return 0, fmt.Errorf("status of service %s: %w", service, err)
	}
	return status.ProcessId, nil
}
