package simulate

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestServe runs the command as a service and asks it over HTTP.
func TestServe(t *testing.T) {
	for _, tc := range []struct {
		manifests string
		code      int
	}{{small, ExitOK}, {"../../examples/limits", ExitIncomplete}} {
		ctx, cancel := context.WithCancel(t.Context())
		stdout, stderr := &strings.Builder{}, &strings.Builder{}
		errRead, errWrite := io.Pipe()
		code := make(chan int)
		go func() {
			code <- Run(ctx, Options{Manifests: []string{tc.manifests}, Output: "json", Serve: "127.0.0.1:0", Stdout: stdout, Stderr: io.MultiWriter(errWrite, stderr)})
			_ = errWrite.Close()
		}()
		line, err := bufio.NewReader(errRead).ReadString('\n')
		require.NoError(t, err)
		base, ok := strings.CutPrefix(strings.TrimSpace(line), "serving on ")
		require.True(t, ok, line)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		get := func(path string) (int, string) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			return resp.StatusCode, string(body)
		}

		status, body := get("/npm/v1/simulate")
		require.Equal(t, http.StatusOK, status)
		require.JSONEq(t, stdout.String(), body, "the same as was printed")
		status, body = get("/healthz")
		require.Equal(t, http.StatusOK, status, body)
		status, body = get("/readyz")
		require.Equal(t, http.StatusOK, status, body)
		status, body = get("/npm/v1/debug/manager")
		require.Equal(t, http.StatusOK, status)
		require.True(t, json.Valid([]byte(body)), body)
		status, _ = get("/nothing")
		require.Equal(t, http.StatusNotFound, status)

		if tc.manifests == small {
			status, body = get("/npm/v1/simulate?matrix=80/TCP&matrix=1/udp&trace=" + url.QueryEscape("x/web->x/db:5432/TCP"))
			require.Equal(t, http.StatusOK, status)
			var d document
			require.NoError(t, json.Unmarshal([]byte(body), &d))
			require.Len(t, d.Verdicts, 6+6+1)
			require.Equal(t, "x/web->x/db:5432/TCP allow in +x/also-db out +", row(d.Verdicts[12]))
		}
		status, body = get("/npm/v1/simulate?matrix=80")
		require.Equal(t, http.StatusBadRequest, status)
		require.Equal(t, "--matrix \"80\": write PORT/PROTO, like 80/TCP\n", body)
		status, body = get("/npm/v1/simulate?trace=" + url.QueryEscape("a/b->1.1.1.1:5432/TCP"))
		require.Equal(t, http.StatusBadRequest, status)
		require.Equal(t, "trace a/b->1.1.1.1: a/b cannot be asked about: there is no such pod\n", body)

		cancel()
		require.Equal(t, tc.code, <-code)
		require.Equal(t, line, stderr.String(), "nothing but the address")
	}
}

func TestServeWhereSomebodyElseListens(t *testing.T) {
	l, err := listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	var out, errs strings.Builder
	code := Run(t.Context(), Options{Manifests: []string{small}, Serve: l.Addr().String(), Stdout: &out, Stderr: &errs})
	require.Equal(t, ExitBadInput, code)
	require.Empty(t, out.String())
	require.Equal(t, "npm: simulate: debug endpoint: listen tcp "+l.Addr().String()+": bind: address already in use; choose another address with --serve\n", errs.String())
}
