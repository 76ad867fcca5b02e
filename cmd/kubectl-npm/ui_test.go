package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/cli"
)

// startUI runs the command until the test ends. It returns a function that gets a page with a Host
// header, "" for the usual one.
func startUI(t *testing.T, args ...string) func(path, host string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"ui", "--listen", "127.0.0.1:0"}, args...), cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: write})
		_ = write.Close()
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	require.NoError(t, err)
	base, ok := strings.CutPrefix(strings.TrimSpace(line), "serving on ")
	require.True(t, ok, line)
	go func() { _, _ = io.Copy(io.Discard, read) }()
	t.Cleanup(func() {
		cancel()
		require.Equal(t, cli.ExitOK, <-code)
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(path, host string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		require.NoError(t, err)
		req.Host = host
		resp, err := client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode, string(body)
	}
}

// TestUIOfManifests: the pages show a simulated node, and answer no other site.
func TestUIOfManifests(t *testing.T) {
	get := startUI(t, "--manifests", shop)
	code, body := get("/", "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `src="ui/app.js"`)
	_, body = get("/api/pods", "")
	require.Contains(t, body, `"pod":"shop/db-0"`)
	_, body = get("/api/trace?q=shop/api-0->shop/db-0:5432/TCP", "")
	require.Contains(t, body, `"verdict":"allowed"`)
	code, _ = get("/", "evil.example")
	require.Equal(t, http.StatusForbidden, code, "a name that resolves to this machine")
}

// TestUIOfADump: the pages show a saved dump.
func TestUIOfADump(t *testing.T) {
	file, _ := bundleOf(t, shop)
	get := startUI(t, "--dump", file)
	_, body := get("/api/status", "")
	require.Contains(t, body, `"version":"a saved dump"`)
	require.Contains(t, body, `"fixed":true`)
}

// TestUIOfACluster: the front page lists the nodes, and each node has a page of its own.
func TestUIOfACluster(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	t.Setenv("KUBECONFIG", fakeCluster(t).Kubeconfig)
	get := startUI(t)
	code, body := get("/", "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `<a href="nodes/win-1/">win-1</a></th><td>ready</td>`)
	require.Contains(t, body, `<a href="nodes/win-3/">win-3</a></th><td>no answer: `)
	_, body = get("/nodes/win-2/api/pods", "")
	require.Contains(t, body, `"pod":"z/db"`)
	code, body = get("/nodes/win-3/api/pods", "")
	require.Equal(t, http.StatusBadGateway, code, body)
	code, _ = get("/", "evil.example")
	require.Equal(t, http.StatusForbidden, code)
}
