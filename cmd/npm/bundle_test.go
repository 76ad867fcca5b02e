package main

import (
	"archive/zip"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/tool/bundle"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestSupportBundleOfAnAgent: a bundle has what a support engineer looks for, and no secret of the
// cluster or of the machine.
func TestSupportBundleOfAnAgent(t *testing.T) {
	const policies = `[{"metadata":{"namespace":"x","name":"p","uid":"u","annotations":{
		"kubectl.kubernetes.io/last-applied-configuration":"secret-of-a-policy"}},
		"spec":{"podSelector":{},"ingress":[{"from":[{"podSelector":{"matchLabels":{"app":"label-that-shows"}}}]}]}}]`
	t.Setenv("SOME_PASSWORD", "secret-of-the-environment")
	kubeconfig := serveAPI(t, policies, make(chan string, 10))
	text, err := os.ReadFile(kubeconfig)
	require.NoError(t, err)
	withToken := strings.NewReplacer("context: {cluster: a}", "context: {cluster: a, user: u}",
		"kind: Config,", "kind: Config, users: [{name: u, user: {token: secret-of-the-kubeconfig}}],").Replace(string(text))
	require.Equal(t, 1, strings.Count(withToken, "secret"))
	require.NoError(t, os.WriteFile(kubeconfig, []byte(withToken), 0o600))

	fake := newFake()
	require.NoError(t, fake.CreateEndpoint(hnssim.SimEndpoint{ID: "e1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
	s := start(t, fake, "{}", "--kubeconfig", kubeconfig)
	s.becomes("/readyz", 200, "ok\n")
	_, steps := s.get(debug.TransactionsPath)
	require.Contains(t, steps, `{"kind":"pod","operation":"set","object":"x/a"}`)
	require.Contains(t, steps, `"op":"ACL/Add","endpoint":"e1"`)

	code, zipped := s.get(debug.BundlePath)
	require.Equal(t, http.StatusOK, code)
	b, err := bundle.Read(strings.NewReader(zipped), int64(len(zipped)))
	require.NoError(t, err)
	require.Equal(t, "win-1", b.Dump.Node)
	require.Equal(t, "win-1", b.Recording.Node)
	require.NotEmpty(t, b.Recording.Steps[0].Calls)

	z, err := zip.NewReader(strings.NewReader(zipped), int64(len(zipped)))
	require.NoError(t, err)
	shown := map[string]string{ // file and what must be in it
		"README.txt": "goroutines.txt", "version.txt": "", "config.json": `"Node": "win-1"`, "dump.json": "label-that-shows",
		"recording.jsonl": `"object":"x/a"`, "health.txt": "readyz: ok", "goroutines.txt": "goroutine ",
		"node-metrics.txt": "npm_hns_calls_total", "cluster-metrics.txt": "npm_pods_watched",
	}
	require.Len(t, z.File, len(shown))
	for _, f := range z.File {
		r, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Contains(t, shown, f.Name)
		require.Contains(t, string(text), shown[f.Name], f.Name)
		require.NotContains(t, string(text), "secret-of", f.Name)
		require.NotContains(t, string(text), kubeconfig, f.Name)
	}
	s.end()
}
