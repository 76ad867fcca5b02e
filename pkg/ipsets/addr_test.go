package ipsets

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAddrs: addresses of four bytes keep their numerical order and their text.
func TestAddrs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		four := rapid.Custom(func(t *rapid.T) netip.Addr {
			return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "bytes")))
		})
		in := rapid.SliceOf(four).Draw(t, "addresses")
		var keys []addr
		var want []string
		for _, a := range in {
			key, ok := addrOf(a)
			require.True(t, ok)
			require.Equal(t, a.String(), key.String())
			back, ok := parseAddr(a.String())
			require.True(t, ok)
			require.Equal(t, key, back)
			keys = append(keys, key)
		}
		slices.SortFunc(in, netip.Addr.Compare)
		for _, a := range in {
			want = append(want, a.String())
		}
		require.Equal(t, want, textsOf(keys))
	})
}

// TestOnlyIPv4: what is no IPv4 address is in no set, and a value of HNS that is
// none makes the set differ until it is written again.
func TestOnlyIPv4(t *testing.T) {
	for _, text := range []string{"fd00::1", "::ffff:10.0.0.1", "10.0.0.0/24", "10.0.0.01", "x", ""} {
		_, ok := parseAddr(text)
		require.False(t, ok, text)
	}
	c := NewCache()
	c.Hold(leafA, rule)
	c.AddAddr(leafA, addr1)
	six := netip.MustParseAddr("::ffff:" + addr1.String())
	require.True(t, c.Contains(leafA, addr1))
	require.False(t, c.Contains(leafA, six))
	c.RemoveAddr(leafA, six)
	require.Equal(t, 1, c.Len(leafA))
	c.Observe([]Observed{{ID: leafA.ID(), Name: leafA.String(), Values: []string{addr1.String(), six.String()}}}, nil)
	require.True(t, c.Copy().Differences()[leafA.ID()].Unknown)
	require.Equal(t, []string{addr1.String()}, c.Plan()[0].Sets[0].Values)
}
