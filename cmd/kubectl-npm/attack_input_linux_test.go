package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/test/effort"
)

const (
	// toolEnv has the command line of a process that is npm itself.
	toolEnv = "NPM_TEST_TOOL"
	// mostOfTool is what npm may have resident while it reads what somebody made to
	// hurt it, in KiB.
	mostOfTool = 1 << 20
	toolLimit  = 30 * time.Second
)

// TestTool is npm in a process of its own, for the tests below.
func TestTool(t *testing.T) {
	line := os.Getenv(toolEnv)
	if line == "" {
		t.Skip("it is a process of other tests")
	}
	code := run(t.Context(), strings.Fields(line), cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	os.Exit(code)
}

// tool runs npm and returns what it wrote, and its exit code. It fails when it takes
// more memory than it may or does not end in time.
func tool(t *testing.T, args string) (said string, code int) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), toolLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-test.run=^TestTool$")
	cmd.Env = append(os.Environ(), toolEnv+"="+args, "GOMEMLIMIT=512MiB")
	out, err := cmd.CombinedOutput()
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
		require.NoError(t, err)
	}
	require.NoError(t, ctx.Err(), "it has not ended")
	resident := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
	t.Logf("npm %.60s: exit code %d, %d MB, %v of CPU: %.200s", args, cmd.ProcessState.ExitCode(), resident>>10, cmd.ProcessState.UserTime().Round(time.Millisecond), out)
	require.LessOrEqual(t, resident, int64(mostOfTool), "KiB that were resident at most")
	return string(out), cmd.ProcessState.ExitCode()
}

// endlessLists are the lists of a dump that somebody makes as long as they like.
var endlessLists = []string{"pods", "sets", "policies", "endpoints", "warnings", "reports"}

// A support bundle of some kilobytes costs no gigabytes.
func TestBundleBomb(t *testing.T) {
	effort.Unraced(t)
	for _, list := range endlessLists {
		t.Run(list, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "bundle.zip")
			writeBundle(t, file, io.MultiReader(strings.NewReader(`{"NodeName":"n1","time":"2026-01-01T00:00:00Z","`+list+`":[{}`),
				bytes.NewReader(bytes.Repeat([]byte(",{}"), 9_000_000)), strings.NewReader("]}")))
			for _, args := range []string{"trace 10.0.0.1 10.0.0.2:80/TCP --dump " + file, "replay " + file} {
				_, code := tool(t, args)
				require.NotZero(t, code)
			}
		})
	}
}

// What somebody else called a thing does nothing in the terminal of who reads it.
func TestTerminalIsLeftAlone(t *testing.T) {
	const evil = "a\x1b[2J\x1b]0;owned\x07\u009b31m\u202eb"
	dir := t.TempDir()
	for name, text := range map[string]string{
		"kind":      "{apiVersion: v1, kind: %q, metadata: {name: x}}",
		"group":     "{apiVersion: %q, kind: Pod, metadata: {name: x}}",
		"name":      "{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: %q}, status: {podIP: 10.0.0.1}}",
		"namespace": "{apiVersion: v1, kind: Namespace, metadata: {name: %q}}",
		"field":     "{apiVersion: v1, kind: Pod, metadata: {name: x}, %q: 1}",
		"policy":    "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: x, name: %q}, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 'fd00::/8'}}]}]}}",
		"cidr":      "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: x, name: p}, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: %q}}]}]}}",
		"label":     "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: x, name: p}, spec: {podSelector: {matchLabels: {a: %q}}, ingress: [{from: [{podSelector: {matchLabels: {a: %[1]q}}}]}]}}",
		"yaml":      "{: %q",
	} {
		t.Run("manifest, "+name, func(t *testing.T) {
			file := filepath.Join(dir, name+".yaml")
			require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, text, evil), 0o600))
			for _, args := range [][]string{
				{"simulate", "--once", "--matrix", "80/TCP", "--manifests", file},
				{"trace", "10.0.0.9", "10.0.0.1:80/TCP", "--manifests", file},
			} {
				_, stdout, stderr := command(t, "", args...)
				requirePlain(t, stdout+stderr)
			}
		})
	}
	for name, answer := range map[string]func(w http.ResponseWriter){
		"status": func(w http.ResponseWriter) { http.Error(w, evil, http.StatusForbidden) },
		"API error": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"a\u001b[2J\u001b]0;owned\u0007b"}`)
		},
		"no JSON": func(w http.ResponseWriter) { _, _ = io.WriteString(w, evil) },
	} {
		t.Run("server, "+name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
			defer server.Close()
			kubeconfig := filepath.Join(dir, "config")
			require.NoError(t, os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}],
  clusters: [{name: a, cluster: {server: "`+server.URL+`"}}]}`), 0o600))
			_, stdout, stderr := command(t, "", "trace", "10.0.0.9", "10.0.0.1:80/TCP", "--kubeconfig", kubeconfig, "--node", "n1")
			requirePlain(t, stdout+stderr)
		})
	}
}

// requirePlain fails for text with which a terminal does anything but show it.
func requirePlain(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			require.Fail(t, "a control character", "%q", text)
		}
	}
}
