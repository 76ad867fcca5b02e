package main

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/tool/hnssim"
)

func TestWatchHNS(t *testing.T) {
	const unreadable = ^uint32(0)
	for _, tc := range []struct {
		name     string
		pids     []uint32 // one look after the other; the last stays
		woken    []int    // after which looks, from 0
		restarts int      // lines that say so
		warnings int
	}{
		{"steady", []uint32{7, 7, 7}, nil, 0, 0},
		{"restarted", []uint32{7, 8, 8, 9}, []int{1, 3}, 2, 0},
		{"stopped for a while", []uint32{7, 0, 0, 8, 8}, []int{3}, 1, 0},
		{"the same id again", []uint32{7, 0, 7, 7}, []int{2}, 1, 0},
		{"not running at first", []uint32{0, 0, 7, 7}, []int{2}, 1, 0},
		{"no service", []uint32{0, 0}, nil, 0, 0},
		{"unreadable", []uint32{unreadable, unreadable, 7, unreadable, 7}, nil, 0, 1},
		{"restarted unseen", []uint32{7, unreadable, unreadable, 8}, []int{3}, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				logger, err := cli.NewLogger(&log, "info")
				require.NoError(t, err)
				var looks atomic.Int32
				pid := func() (uint32, error) {
					now := tc.pids[min(int(looks.Add(1)), len(tc.pids))-1]
					if now == unreadable {
						return 0, errors.New("denied")
					}
					return now, nil
				}
				wake := make(chan struct{}, 1)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					watchHNS(ctx, host{hnsPID: pid, pidPoll: pidPoll}, wake, logger)
				}()
				var woken []int
				for i := range len(tc.pids) + 2 {
					synctest.Wait()
					require.EqualValues(t, i+1, looks.Load())
					select {
					case <-wake:
						woken = append(woken, i)
					default:
					}
					time.Sleep(pidPoll)
				}
				cancel()
				<-ended
				require.Equal(t, tc.woken, woken)
				require.Equal(t, tc.restarts, strings.Count(log.String(), "HNS was restarted"), log.String())
				require.Equal(t, tc.warnings, strings.Count(log.String(), `"level":"warn"`), log.String())
			})
		})
	}
}

// Nobody may be there to be woken: the watch goes on.
func TestWatchHNSNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, err := cli.NewLogger(&bytes.Buffer{}, cli.LogOff)
		require.NoError(t, err)
		next := uint32(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Second)
		defer cancel()
		wake := make(chan struct{}, 1)
		watchHNS(ctx, host{hnsPID: func() (uint32, error) { next++; return next, nil }, pidPoll: pidPoll}, wake, logger)
		require.Equal(t, uint32(7), next)
		require.Len(t, wake, 1)
	})
}

// What an HNS that was restarted has lost is put back at once.
func TestStartRepairsARestartedHNS(t *testing.T) {
	fake := newFake()
	require.NoError(t, fake.CreateEndpoint(hnssim.NewEndpoint{ID: "e1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
	s := start(t, fake, `{"WindowsNetworkName": "Calico"}`, "--reconcile-interval", "1h")
	s.becomes("/readyz", 200, "ok\n")
	before := fake.Dump()
	require.Contains(t, before, "azure-acl-baseazurewireserver")
	fake.Restart(true)
	require.NotEqual(t, before, fake.Dump())
	fake.set(func() { fake.pid++ })
	s.log("HNS was restarted, reading what it has")
	require.Eventually(t, func() bool { return fake.Dump() == before }, 30*time.Second, 10*time.Millisecond)
	s.stop()
	require.NoError(t, <-s.ended)
}
