package main

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/node"
)

// A writer that undoes us every time costs six writes in the first minute and two in
// each further one; a calm minute ends the pauses.
func TestInstallKeepBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, err := cli.NewLogger(io.Discard, cli.LogOff)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		start, calm, writes := time.Now(), false, map[int]int{}
		var mu sync.Mutex // guards them
		done := make(chan struct{})
		go func() {
			defer close(done)
			keep(ctx, logger, func() (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				if !calm {
					writes[int(time.Since(start)/time.Minute)]++
				}
				return !calm, nil
			})
		}()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		mu.Lock()
		calm = true
		mu.Unlock()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		mu.Lock()
		require.LessOrEqual(t, writes[0], 6)
		require.LessOrEqual(t, writes[3], 2)
		calm, start, writes = false, time.Now(), map[int]int{}
		mu.Unlock()
		time.Sleep(10 * time.Second)
		stop()
		<-done
		require.Equal(t, map[int]int{0: 4}, writes, "at once again: 0, 1, 3 and 7 s")
	})
}

func TestInstallWithoutThePlugin(t *testing.T) {
	dir := t.TempDir()
	code, stdout, stderr := command(t, "", "install-cni", "--conf-dir", dir, "--bin-dir", dir)
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "npm: install-cni: "+node.PluginFile+" beside npm.exe: ")
	require.Equal(t, 1, strings.Count(stderr, "\n"))
}
