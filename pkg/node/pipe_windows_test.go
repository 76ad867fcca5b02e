package node

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/Microsoft/go-winio"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

func somewhere(t *testing.T) string {
	return fmt.Sprintf(`\\.\pipe\%s-%d-%d`, t.Name(), os.Getpid(), time.Now().UnixNano())
}

// The pipe has the access that we ask for, as far as the system tells.
func TestPipeDescriptor(t *testing.T) {
	path := somewhere(t)
	l, err := ListenPipe(path)
	require.NoError(t, err)
	defer l.Close()
	accepted := make(chan error)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			defer conn.Close()
		}
		accepted <- err
	}()
	conn, err := DialPipe(t.Context(), path)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, <-accepted)
	descriptor, err := windows.GetSecurityInfo(windows.Handle(conn.(interface{ Fd() uintptr }).Fd()), windows.SE_KERNEL_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.OWNER_SECURITY_INFORMATION)
	require.NoError(t, err)
	t.Log(descriptor)
	require.Regexp(t, `D:P\(A;;[^;]+;;;SY\)\(A;;[^;]+;;;BA\)$`, descriptor.String(), "protected, for SYSTEM and administrators, and nobody else")
}

// A pipe that somebody without rights made first is no agent's.
func TestPipeSquatter(t *testing.T) {
	path := somewhere(t)
	l, err := winio.ListenPipe(path, &winio.PipeConfig{SecurityDescriptor: "O:S-1-5-21-1-2-3-1001D:(A;;GA;;;WD)"})
	if err != nil {
		t.Skipf("nobody here can make a pipe of somebody else: %v", err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	_, err = DialPipe(t.Context(), path)
	require.ErrorContains(t, err, "who is no agent")
	// Wine lets anybody share a pipe. Windows does not.
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() != nil {
		_, err = ListenPipe(path)
		require.Error(t, err)
	}
}

func TestPipePathsOfOthers(t *testing.T) {
	for _, path := range []string{"", `\\.\pipe\`, `\\server\pipe\winnpm-cni`, `C:\winnpm-cni`, `\\.\COM1`} {
		_, err := ListenPipe(path)
		require.ErrorIs(t, err, errNotLocal)
		_, err = DialPipe(t.Context(), path)
		require.ErrorIs(t, err, errNotLocal)
	}
}
