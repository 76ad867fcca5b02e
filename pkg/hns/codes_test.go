package hns

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCodeTable: every name is one code's, and each code has a class.
func TestCodeTable(t *testing.T) {
	name := regexp.MustCompile(`^[A-Z][A-Z_]+$`)
	seen := map[string]uint32{}
	for code, c := range codes {
		require.Regexp(t, name, c.Name, "0x%08x", code)
		require.NotContains(t, seen, c.Name, "0x%08x", code)
		seen[c.Name] = code
		require.NotEqual(t, Unlisted, c.Class, c.Name)
		require.LessOrEqual(t, c.Class, SaysUsed, c.Name)
		require.NotZero(t, code&(1<<31), "%s is no failure", c.Name)
	}
}

// TestCodesOfWindows holds our numbers and names against those of golang.org/x/sys/windows, which has
// all but the newest of HCN.
func TestCodesOfWindows(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "windows", "zerrors_windows.go"))
	require.NoError(t, err)
	theirs := map[string]uint32{}
	for _, row := range regexp.MustCompile(`(?m)^\s+(\w+)\s+(Handle|syscall\.Errno)\s+= (\w+)\r?$`).FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseUint(row[3], 0, 32)
		require.NoError(t, err, row[0])
		if row[2] == "syscall.Errno" {
			n |= 0x80070000
		}
		theirs[row[1]] = uint32(n)
	}
	var newer []uint32
	for code, c := range codes {
		if number, there := theirs[c.Name]; there {
			require.Equal(t, number, code, c.Name)
		} else {
			newer = append(newer, code)
		}
	}
	require.ElementsMatch(t, []uint32{0x803B0030, 0x803B0032, 0x803B0033, 0x803B0034, 0x803B0035}, newer)
}

// TestCodeClasses: the codes that decide, and how those are read that might be
// anything.
func TestCodeClasses(t *testing.T) {
	for class, all := range map[CodeClass][]uint32{
		RefusesContent: {
			0x803B000D, 0x803B000E, 0x803B0015, 0x803B0016, 0x803B001B, 0x803B001C, 0x803B001E, 0x803B002D,
			0x803B002F, 0x803B0030, 0x803B0032, 0x803B0033, 0x80070057, 0x80070032, 0x8007000D,
		},
		RefusesEndpoint: {0x803B000C, 0x803B000F, 0x803B0034, 0x803B0035},
		SaysMissing:     {0x803B0001, 0x803B0002, 0x803B0008, 0x80070490},
		SaysExists:      {0x803B0012},
		SaysUsed:        {0x803B002C},
		BrokeOff: {
			0x800706BA, 0x800706BE, 0x800706BF, 0x80010108, 0x80070426, 0x8007045B, 0x8007041D, 0x80070102, 0x803B0020,
		},
		Unlisted: {
			0, 0x803B0007, 0x803B000A, 0x803B0017, 0x803B0025, 0x803B0031, 0x803B0038, 0x80004001, 0x80004005, 0x80070005,
			0x8007000E, 0x8000FFFF, 0x80070006, 0x12345678,
		},
	} {
		for _, code := range all {
			require.Equal(t, class, LookupCode(code).Class, fmt.Sprintf("0x%08x", code))
		}
	}
}
