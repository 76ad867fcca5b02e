package access

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
)

// A flood of tokens that nobody knows costs ten reviews and ten a minute, and
// keeps out neither who comes from elsewhere nor who was known before.
func TestFloodOfTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newServer()
		h := New(api, klog.Logger{}).Page(page)
		require.Equal(t, 200, get(t, h, "/dump", "Bearer t-ann").Code)
		api.taken()
		began, codes := time.Now(), map[int]int{}
		for i := range 6000 {
			codes[get(t, h, "/dump", fmt.Sprintf("Bearer guess%d", i)).Code]++
			time.Sleep(10 * time.Millisecond)
		}
		asked := len(api.taken())
		require.LessOrEqual(t, asked, tryBurst+int(time.Since(began)/tryEvery))
		require.Equal(t, map[int]int{401: asked, 429: 6000 - asked}, codes)

		require.Equal(t, 200, from(t, h, "192.0.2.2", "/dump", "Bearer t-ann").Code)
		api.users["t-cat"] = "cat"
		require.Equal(t, 403, from(t, h, "192.0.2.2", "/dump", "Bearer t-cat").Code)
		get(t, h, "/dump", "Bearer last-guess") // with the try that it got meanwhile
		rec := get(t, h, "/dump", "Bearer t-bob")
		require.Equal(t, 429, rec.Code)
		require.NotEmpty(t, rec.Header().Get("Retry-After"))
		time.Sleep(keepYes - time.Second)
		require.Equal(t, 200, from(t, h, "192.0.2.2", "/dump", "Bearer t-ann").Code, "her answers are no more, and she was known")
		time.Sleep(tryBurst * tryEvery)
		require.Equal(t, 403, get(t, h, "/dump", "Bearer t-bob").Code, "a flood is forgotten")
	})
}

// Who was known is asked about again in the middle of a flood from the same
// address, as long as the token is good.
func TestKnownInAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newServer()
		h := New(api, klog.Logger{}).Page(page)
		require.Equal(t, 200, get(t, h, "/dump", "Bearer t-ann").Code)
		time.Sleep(keepYes + time.Second)
		for i := range 100 {
			get(t, h, "/dump", fmt.Sprintf("Bearer guess%d", i))
		}
		api.taken()
		require.Equal(t, 200, get(t, h, "/dump", "Bearer t-ann").Code)
		require.Equal(t, []string{"who has t-ann", "may ann of [g] get /dump"}, api.taken())

		api.users = map[string]string{}
		time.Sleep(keepYes + time.Second)
		for i := range 100 {
			get(t, h, "/dump", fmt.Sprintf("Bearer more%d", i))
		}
		api.taken()
		require.Equal(t, 401, get(t, h, "/dump", "Bearer t-ann").Code)
		time.Sleep(keepNo + time.Second)
		for i := range 100 {
			get(t, h, "/dump", fmt.Sprintf("Bearer third%d", i))
		}
		require.Equal(t, 429, get(t, h, "/dump", "Bearer t-ann").Code, "it is a stranger's now")
	})
}

// A known user that tries paths costs no more, nor does an API server that has
// no answer; one client that hangs leaves places for others.
func TestOtherFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newServer()
		h := New(api, klog.Logger{}).Page(page)
		for i := range 1000 {
			get(t, h, fmt.Sprintf("/p/%d", i), "Bearer t-bob")
		}
		require.LessOrEqual(t, len(api.taken()), 1+tryBurst)

		api.down = fmt.Errorf("refused")
		for i := range 1000 {
			from(t, h, "192.0.2.2", "/dump", fmt.Sprintf("Bearer guess%d", i))
		}
		require.LessOrEqual(t, len(api.taken()), tryBurst)

		api.down, api.hang = nil, make(chan struct{})
		for i := range 100 {
			go from(t, h, "192.0.2.3", "/dump", fmt.Sprintf("Bearer guess%d", i))
		}
		synctest.Wait()
		require.Len(t, api.taken(), atOnceOfOne)
		close(api.hang)
		synctest.Wait()
		require.Equal(t, 200, from(t, h, "192.0.2.4", "/dump", "Bearer t-ann").Code)
	})
}

func TestClients(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1/32", "[::ffff:192.0.2.1]:9": "192.0.2.1/32", "[fd00::1:2:3:4]:1": "fd00::/64", "[fe80::1%eth0]:1": "fe80::/64",
	} {
		require.Equal(t, netip.MustParsePrefix(want), clientOf(remote), remote)
	}
	require.Equal(t, netip.Prefix{}, clientOf("@"))
}

// Who tries from many addresses fills no memory.
func TestAddressesAreBounded(t *testing.T) {
	tries := newTries()
	for i := range 2 * mostAddresses {
		require.True(t, tries.take(clientOf(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256))))
	}
	require.LessOrEqual(t, len(tries.full.Keys()), mostAddresses)
}
