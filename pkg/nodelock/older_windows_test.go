package nodelock

import (
	"context"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

// takeOlder takes what older versions lock.
func takeOlder(name string) func(context.Context, Listener) (func(), error) {
	return func(ctx context.Context, hears Listener) (func(), error) {
		return older{name}.lock(ctx, &waiter{Listener: hears})
	}
}

// Whatever has the name of the older lock and is none does not keep us waiting.
func TestSquattersAreIgnored(t *testing.T) {
	for what, squat := range map[string]func(*testing.T, *uint16) windows.Handle{
		"another kind of object": func(t *testing.T, name *uint16) windows.Handle {
			event, err := windows.CreateEvent(nil, 0, 0, name)
			require.NoError(t, err)
			return event
		},
		"a mutex of somebody without rights": func(t *testing.T, name *uint16) windows.Handle {
			return mutexOf(t, name, "O:S-1-5-21-1-2-3-1001D:(A;;GA;;;WD)")
		},
	} {
		t.Run(what, func(t *testing.T) {
			runtime.LockOSThread() // a mutex belongs to it
			defer runtime.UnlockOSThread()
			lock := New(lockName(t))
			name, err := windows.UTF16PtrFromString(older{lock.name}.path())
			require.NoError(t, err)
			squatter := squat(t, name)
			defer func() { _ = windows.CloseHandle(squatter) }()
			ignored := 0
			hears := alone(t)
			hears.Ignored = func(by string) {
				ignored++
				t.Log(by)
			}
			unlock, err := lock.Lock(quick(t), hears)
			require.NoError(t, err)
			unlock()
			require.Equal(t, 1, ignored)
		})
	}
}

// mutexOf makes a mutex that belongs to somebody, and holds it.
func mutexOf(t *testing.T, name *uint16, descriptor string) windows.Handle {
	t.Helper()
	sd, err := windows.SecurityDescriptorFromString(descriptor)
	require.NoError(t, err)
	attributes := windows.SecurityAttributes{SecurityDescriptor: sd}
	attributes.Length = uint32(unsafe.Sizeof(attributes))
	mutex, err := windows.CreateMutex(&attributes, true, name)
	require.NoError(t, err)
	return mutex
}

// The file is shut to all but the system and administrators, whoever made it
// before with whatever rights.
func TestOthersAreShutOut(t *testing.T) {
	lock := New(lockName(t))
	require.NoError(t, os.WriteFile(lock.path(), []byte("made by hand"), 0o666))
	unlock, err := lock.Lock(quick(t), alone(t))
	require.NoError(t, err)
	defer unlock()
	require.Error(t, os.Remove(lock.path()), "another file of that name could be locked")
	descriptor, err := windows.GetNamedSecurityInfo(lock.path(), windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	require.NoError(t, err)
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil {
		t.Log("Wine keeps the mode of a Unix file in place of the list:", descriptor)
		return
	}
	require.Equal(t, fileAccess, descriptor.String())
}
