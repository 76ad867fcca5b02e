package processes

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	require.Equal(t, "process 7", Text(7, ""))
	require.Equal(t, "process 7 (npm.exe)", Text(7, "npm.exe"))
	require.Equal(t, "process 7 (a\uFFFD[1mb)", Text(7, "a\x1b[1mb"))
	require.Equal(t, "process 7 ("+strings.Repeat("é", mostName)+"…)", Text(7, strings.Repeat("é", 1000)))
}

// The tables are as Windows writes them; what is not whole is left out.
func TestTables(t *testing.T) {
	// 127.0.0.1:10091 of 12, and 0.0.0.0:80 of 4.
	four := []uint32{2, 2, 0x0100007f, 0x6b27, 0, 0, 12, 2, 0, 0x5000, 0, 0, 4}
	want := []listener{{netip.MustParseAddrPort("127.0.0.1:10091"), 12}, {netip.MustParseAddrPort("0.0.0.0:80"), 4}}
	require.Equal(t, want, listeners4(four))
	require.Equal(t, want[:1], listeners4(four[:12]))
	require.Empty(t, listeners4(four[:1]))
	require.Empty(t, listeners4(nil))

	six := []uint32{1, 0, 0, 0, 0x01000000, 0, 0x6b27, 0, 0, 0, 0, 0, 0, 2, 12}
	require.Equal(t, []listener{{netip.MustParseAddrPort("[::1]:10091"), 12}}, listeners6(six))
}

func TestWhoIsInTheWay(t *testing.T) {
	all := []listener{{netip.MustParseAddrPort("127.0.0.1:10091"), 12}, {netip.MustParseAddrPort("[::]:10093"), 13}}
	for wanted, pid := range map[string]uint32{
		"127.0.0.1:10091": 12, "0.0.0.0:10091": 12, "10.0.0.1:10091": 0, "10.0.0.1:10093": 13, "127.0.0.1:10092": 0,
	} {
		got, ok := find(all, netip.MustParseAddrPort(wanted))
		require.Equal(t, pid, got, wanted)
		require.Equal(t, pid != 0, ok, wanted)
	}
}
