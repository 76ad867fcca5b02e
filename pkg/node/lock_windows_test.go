package node

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

// The folder is closed to all but the system and administrators. Wine keeps the mode of a Unix
// folder in place of the list.
func TestLockShutsOthersOut(t *testing.T) {
	dir, err := directory()
	require.NoError(t, err)
	again, err := directory()
	require.NoError(t, err)
	require.Equal(t, dir, again)
	descriptor, err := windows.GetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	require.NoError(t, err)
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil {
		t.Log("under Wine:", descriptor)
		return
	}
	require.Equal(t, lockAccess, descriptor.String())
}
