package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/bundle"
)

// bundleServer answers with the bundle of an agent on a node.
func bundleServer(t *testing.T, node string) *httptest.Server {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	fine := func() error { return nil }
	server := httptest.NewServer(debug.Handler(debug.Config{
		Dump:      func() state.Dump { return state.Dump{Node: node, Time: at} },
		Recording: func(w io.Writer) error { return json.NewEncoder(w).Encode(recorder.Header{Node: node, Taken: at}) },
		Healthy:   fine, Ready: fine,
	}))
	t.Cleanup(server.Close)
	return server
}

// opened returns the bundle in a file.
func opened(t *testing.T, file string) bundle.Bundle {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	b, err := bundle.Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return b
}

// TestSupportBundle: the bundle of a node comes through the API server.
func TestSupportBundle(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	fake := fakeCluster(t)
	of := func(node string, handler http.HandlerFunc) {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		fake.Backends["kube-system/npm-"+node+":10091"] = server.Listener.Addr().String()
		fake.Pods = append(fake.Pods, agentOn("npm-"+node, node))
	}
	fake.Backends["kube-system/npm-win-1:10091"] = bundleServer(t, "win-1").Listener.Addr().String()
	fake.Backends["kube-system/npm-win-2:10091"] = bundleServer(t, "../up/ "+strings.Repeat("n", 300)).Listener.Addr().String()
	of("other", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	of("broken", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "PK")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	of("off", http.NotFound)
	t.Setenv("KUBECONFIG", fake.Kubeconfig)
	manifests, err := filepath.Abs(shop)
	require.NoError(t, err)

	for _, tc := range []struct {
		name   string
		args   []string
		code   int
		file   string // a pattern; "" for none
		stderr string // a part of the line
	}{
		{"of an agent", []string{"--node", "win-1"}, 0, `winnpm-win-1-20260102T030405Z\.zip`, ""},
		{"with a name", []string{"--node", "win-1", "-o", "b.zip"}, 0, `b\.zip`, ""},
		{"of manifests", []string{"--manifests", manifests}, 0, `winnpm-simulation-\d{8}T\d{6}Z\.zip`, ""},
		{"of one node", []string{"--manifests", manifests, "--node", "win-1"}, 0, `winnpm-win-1-\d{8}T\d{6}Z\.zip`, ""},
		{"a strange name", []string{"--node", "win-2"}, 0, `winnpm-_+up_n{50,60}-20260102T030405Z\.zip`, ""},

		{"not over another", []string{"--node", "win-1", "-o", "taken"}, 1, "", "kubectl npm: support-bundle: taken is there already; give another name with -o"},
		{"no such folder", []string{"--node", "win-1", "-o", "none/b.zip"}, 1, "", "none"},
		{"something else", []string{"--node", "other"}, 1, "", "no support bundle: zip: not a valid zip file"},
		{"broken off", []string{"--node", "broken"}, 1, "", "unexpected EOF"},
		{"a closed agent", []string{"--node", "off"}, 1, "", "the agent kube-system/npm-off on off: 404 Not Found: its Toggles.EnableHTTPDebugAPI is off"},
		{"no agent", []string{"--node", "linux-1"}, 1, "", "no agent on node linux-1: kubectl -n kube-system get pods -o wide -l k8s-app=azure-npm shows where they are"},
		{"no node", nil, 2, "", "kubectl npm: support-bundle: a cluster has many agents: say with --node which one to ask"},
		{"no manifests", []string{"--manifests", "none"}, 1, "", "kubectl npm: support-bundle: none: cannot be read"},
		{"of a dump", []string{"--dump", "-"}, 2, "", "unknown flag: --dump"},
		{"too much", []string{"b.zip"}, 2, "", `unknown command "b.zip" for "kubectl npm support-bundle"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			require.NoError(t, os.WriteFile("taken", []byte("mine"), 0o600))
			code, stdout, stderr := command(t, "", append([]string{"support-bundle"}, tc.args...)...)
			require.Equal(t, tc.code, code, stderr)
			mine, err := os.ReadFile("taken")
			require.NoError(t, err)
			require.Equal(t, "mine", string(mine))
			require.NoError(t, os.Remove("taken"))
			left, err := filepath.Glob("*")
			require.NoError(t, err)
			hidden, err := filepath.Glob(".*")
			require.NoError(t, err)
			require.Empty(t, hidden, "nothing half done is left")
			if tc.file == "" {
				require.Empty(t, left)
				require.Empty(t, stdout)
				require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
				require.Contains(t, stderr, tc.stderr)
				return
			}
			require.Len(t, left, 1)
			require.Regexp(t, "^"+tc.file+"$", left[0])
			require.Regexp(t, "^"+regexp.QuoteMeta(left[0])+`  \d+ bytes\n$`, stdout)
			opened(t, left[0])
		})
	}
}
