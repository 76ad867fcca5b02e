package processes

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

// This process is found by the port that it listens on, and has a name.
func TestThisProcess(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	own := fmt.Sprintf("process %d (%s)", os.Getpid(), filepath.Base(program))
	require.Equal(t, own, Describe(uint32(os.Getpid())))

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	number := netip.MustParseAddrPort(l.Addr().String()).Port()
	require.True(t, slices.ContainsFunc(listeners4(tcpTable(windows.AF_INET)), func(l listener) bool { return l.at.Port() == number }))
	who := []string{own}
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil {
		who = append(who, "") // Wine finds processes by inodes, which not every kernel shows
	}
	require.Contains(t, who, Listening(l.Addr().String()))
	require.NoError(t, l.Close())
	for _, none := range []string{l.Addr().String(), "127.0.0.1:http", "127.0.0.1"} {
		require.Empty(t, Listening(none), none)
	}

	require.Equal(t, "process 4000000000", Describe(4_000_000_000))
}
