package debug

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// loopback serves on a port of this machine until the end of the test.
func loopback(t *testing.T, serve func(context.Context, net.Listener) error) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return l.Addr().String()
}

// flood sends more requests than the server can answer on many connections of one client, until the end
// of the test. Two seconds after the server has closed a connection it opens another one.
// It returns two seconds after the first requests.
func flood(t *testing.T, address string, connections int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	requests := strings.Repeat("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 100)
	once := func() {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { _ = c.Close() })()
		go func() { _, _ = io.Copy(io.Discard, c) }()
		for err == nil {
			_, err = io.WriteString(c, requests)
			<-time.After(50 * time.Millisecond) // leave the processor to the server
		}
	}
	var clients sync.WaitGroup
	for i := range connections {
		clients.Go(func() {
			for pause := time.Duration(i) * 2 * time.Millisecond; ; pause = 2 * time.Second {
				select {
				case <-ctx.Done():
					return
				case <-time.After(pause):
					once()
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		clients.Wait()
	})
	<-time.After(2 * time.Second)
}

// TestProbesUnderFlood: a client with a thousand connections does not delay the kubelet's probes.
func TestProbesUnderFlood(t *testing.T) {
	cfg := pages()
	metrics := loopback(t, func(ctx context.Context, l net.Listener) error { return Serve(ctx, l, Handler(cfg)) })
	probes := loopback(t, func(ctx context.Context, l net.Listener) error { return Serve(ctx, l, Probes(cfg)) })
	flood(t, metrics, 1000)
	kubelet := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	slowest := time.Duration(0)
	for i := range 20 {
		began := time.Now()
		resp, err := kubelet.Get("http://" + probes + []string{"/healthz", "/readyz"}[i%2])
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		slowest = max(slowest, time.Since(began))
		<-time.After(100 * time.Millisecond)
	}
	t.Logf("slowest of 20 probes: %v", slowest)
}

// TestProbes: the listener of the kubelet has two pages, answers only this machine, and
// closes each connection after one answer.
func TestProbes(t *testing.T) {
	cfg := pages()
	h := Probes(cfg)
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusOK, NodeMetricsPath: http.StatusNotFound, ManagerPath: http.StatusNotFound, "/": http.StatusNotFound} {
		code, _ := ask(t, h, path, here, "127.0.0.1:10094")
		require.Equal(t, want, code, path)
	}
	code, _ := ask(t, h, "/healthz", "10.0.0.1:1", "10.9.0.1:10094")
	require.Equal(t, http.StatusForbidden, code)

	probes := loopback(t, func(ctx context.Context, l net.Listener) error { return Serve(ctx, l, h) })
	resp, err := http.Get("http://" + probes + "/healthz")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.True(t, resp.Close)
}
