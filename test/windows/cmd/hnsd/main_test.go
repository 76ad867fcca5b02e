package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"--network", "Calico", "--latency", "1ms", "--endpoint", "10.0.0.4", "--probe", "10.0.0.9->10.0.0.4:80/TCP", "--dump", "127.0.0.1:0"}, w)
		_ = w.Close()
	}()
	lines := bufio.NewScanner(r)
	next := func(prefix string) string {
		require.True(t, lines.Scan())
		rest, ok := strings.CutPrefix(lines.Text(), prefix)
		require.True(t, ok, lines.Text())
		return rest
	}
	next("HNSD_ADDR=127.0.0.1:")
	id, addr, _ := strings.Cut(next("endpoint "), " ")
	require.Equal(t, "10.0.0.4", addr)
	page := next("dump ")
	read := func(path string) string {
		get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page+path, nil)
		require.NoError(t, err)
		get.Close = true // leave no connection behind
		answer, err := http.DefaultClient.Do(get)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return string(body)
	}
	require.Contains(t, read("/"), "network Calico\nendpoint "+id+" addrs=10.0.0.4\n")
	require.Empty(t, read("/transitions"))
	cancel()
	require.NoError(t, <-ended)
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--endpoint", "pod"}, {"--listen", "nowhere"}, {"--more"}, {"--latency", "soon"},
		{"--probe", "10.0.0.9->10.0.0.4:80"}, {"--probe", "10.0.0.9->10.0.0.4/TCP"}, {"--probe", "a->10.0.0.4:80/TCP"}, {"--probe", "::1->[::2]:80/TCP"},
	} {
		require.Error(t, run(t.Context(), args, io.Discard), "%v", args)
	}
}
